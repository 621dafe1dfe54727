"""Plans of batch queries: splits, the reduce's site, what EXPLAIN says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.batch import BatchOptions, Policy
from planner.graph.plan import BatchPlan, ConsideredFilter, Destination, LeftOut, Split
from planner.graph.whole import Scanned
from planner.place.batch import MAX_SPLITS, place_batch
from planner.planning import draft_query
from planner.planning.drafts import with_columns, with_texts
from planner.relations.catalog import Column
from planner.rules.draft import with_scans
from planner.rules.sinks import with_sink
from planner.sql import parse_script
from planner.sql.statements import InsertInto
from planner.text.explain import explain_json, explain_text
from planner.values.errors import PlacementError
from planner.values.scans import SparkExpression, TableScan
from planner.values.splits import NOTHING, FilePart
from planner.values.topology import Site, Topology
from tests.unit.planner.build import catalog_of, columns, draft_of

CATALOG = catalog_of(
    """
    CREATE TABLE texts (line STRING, at TIMESTAMP) WITH ('connector' = 'other') AT us AT eu;
    CREATE SINK words AT ap WITH ('connector' = 'parquet', 'path' = '/out');
    """
)
TOPOLOGY = Topology(sites={name: Site(name, slots=2) for name in ("us", "eu", "ap")}, links={}, gateway="us")
ALIVE = frozenset(TOPOLOGY.sites)
COUNT = "SELECT line, count(*) AS n FROM texts GROUP BY line"


def split(site: str, number: int, size_bytes: int) -> Split:
    return Split(site, (FilePart(f"/data/{number}", 0, size_bytes),), size_bytes)


def plan_of(*splits: Split, sql: str = COUNT) -> BatchPlan:
    return place_batch(draft_of(sql, CATALOG), TOPOLOGY, splits, alive=ALIVE)


def test_maps_are_where_the_splits_are_and_the_reduce_where_most_of_the_bytes_are() -> None:
    plan = plan_of(split("eu", 0, 5_000_000), split("us", 1, 3_000_000), split("eu", 2, 1_000_000))
    assert plan.stage("map").pinned == ("eu", "us")
    assert plan.sites_of(plan.stage("reduce")) == ("eu",)
    assert [s.site for s in plan.splits] == ["eu", "us", "eu"]
    assert [c.name for c in plan.read_columns["map"]] == ["line"]


def test_a_table_without_rows_still_has_one_task() -> None:
    plan = plan_of(sql="SELECT count(*) AS n, max(site) AS s FROM texts")
    assert plan.splits == (Split("eu", (), 0),)
    assert [c.name for c in plan.read_columns["map"]] == ["line", "site"]


def test_explain_says_what_the_query_chose() -> None:
    options = BatchOptions(Policy.RANDOM, 16_000_000, 0.25)
    draft = draft_of(COUNT, CATALOG)
    plan = place_batch(draft, TOPOLOGY, [split("eu", 0, 5)], alive=ALIVE, options=options)
    assert "Scheduler (random): splits of 16 MB, 25% of the tasks near their input\n" in explain_text(plan)
    found = explain_json(plan)["batch"]["options"]
    chosen = {"scheduler": "random", "split_bytes": 16_000_000, "locality_min": 0.25}
    assert found == {**chosen, "key_filters": "time", "reuse": False}


def test_explain_has_maps_reduce_and_splits_by_site() -> None:
    plan = plan_of(split("eu", 0, 5_000_000), split("us", 1, 3_000_000), split("eu", 2, 1_000_000))
    text = explain_text(plan)
    assert text.startswith(
        "Logical plan\n  Project[line, count(*) AS n]\n    Aggregate[line]\n      Scan[texts at eu, us]\n"
    )
    assert "  map: map of texts, a task for each split, at eu, us\n" in text
    assert "  reduce: reduce at eu, results at us\n    reads map as input\n" in text
    assert (
        "\nSplits\n  eu: 2, 6 MB\n  us: 1, 3 MB\nSites for the reduce\n"
        "  * eu: 3 MB of splits are elsewhere; decided when the maps have ended\n    us: 6 MB of splits" in text
    )
    found = explain_json(plan)["batch"]
    assert found == {
        "scans": [],
        "key_filters": [],
        "splits": [
            {"stage": "map", "site": "eu", "splits": 2, "size_bytes": 6_000_000, "left_out_bytes": 0},
            {"stage": "map", "site": "us", "splits": 1, "size_bytes": 3_000_000, "left_out_bytes": 0},
        ],
        "reduce_site": "eu",
        "reduce_sites": [
            {"site": "eu", "expected": True, "elsewhere_bytes": 3_000_000},
            {"site": "us", "expected": False, "elsewhere_bytes": 6_000_000},
        ],
        "options": None,
    }


def test_splits_without_rows_have_a_task_only_where_there_is_no_other() -> None:
    nothing = Split("eu", (NOTHING,), 0, left_out_bytes=7_000_000)
    plan = plan_of(nothing, replace(split("us", 1, 3_000_000), left_out_bytes=1_000_000))
    assert [s.site for s in plan.splits] == ["us"]
    assert plan.stage("map").pinned == ("us",)
    assert plan.left_out == (LeftOut("map", "eu", 7_000_000), LeftOut("map", "us", 1_000_000))
    text = "\nSplits\n  eu: 0, 0 B, 7 MB cannot match\n  us: 1, 3 MB, 1 MB cannot match\nSites for the reduce\n  * us: "
    assert text in explain_text(plan)
    found = explain_json(plan)["batch"]
    assert found["splits"][0] == {
        "stage": "map",
        "site": "eu",
        "splits": 0,
        "size_bytes": 0,
        "left_out_bytes": 7_000_000,
    }
    alone = plan_of(nothing, replace(nothing, site="us"))
    assert alone.splits == (nothing,)
    assert explain_json(alone)["batch"]["splits"][1]["left_out_bytes"] == 7_000_000


def test_explain_says_which_filters_by_keys_were_considered() -> None:
    considered = ConsideredFilter("orders", "c", "customers", "c", True, 1500, 12_000, 3_000_000, "fewer bytes")
    large = replace(considered, column="d", taken=False, threshold="count(*) >= 3")
    draft = replace(draft_of(COUNT, CATALOG), considered=(considered, large))
    plan = place_batch(draft, TOPOLOGY, (), alive=ALIVE)
    assert (
        "\nFilters by keys\n"
        "  * orders.c by customers.c: 1500 keys, 12 kB, save 3 MB: fewer bytes\n"
        "    orders.d by customers.c where count(*) >= 3: 1500 keys, 12 kB, save 3 MB: fewer bytes\n"
        "Splits\n"
    ) in explain_text(plan)
    one, other = explain_json(plan)["batch"]["key_filters"]
    assert (one["taken"], one["keys"], other["column"]) == (True, 1500, "d")


def test_explain_of_a_query_that_runs_whole_says_what_each_scan_sends() -> None:
    line = SparkExpression("AttributeReference", "STRING", "line")
    kept_back = SparkExpression("RLike", "BOOLEAN", None, (line, line), "(line RLIKE line)")
    scans = (
        TableScan("texts", ("line",), (SparkExpression("IsNotNull", "BOOLEAN", None, (line,)), kept_back)),
        TableScan("texts", ()),
    )
    draft = draft_of("SELECT line FROM texts EXCEPT SELECT 'x' FROM texts", CATALOG)
    draft = with_texts(with_scans(draft, Scanned((Column("line", "STRING"),), scans)))
    plan = place_batch(draft, TOPOLOGY, (), alive=ALIVE)
    assert (
        "\nScans\n"
        "  texts in map: sends line\n"
        "      where NOT line IS NULL\n"
        "      not (line RLIKE line): RLike is not known to succeed for every row\n"
        "  texts in map: sends no column, only how many rows there are\n"
        "Splits\n"
    ) in explain_text(plan)
    one, two = explain_json(plan)["batch"]["scans"]
    assert one == {
        "table": "texts",
        "stage": "map",
        "columns": ["line"],
        "stand_ins": {},
        "distinct": False,
        "counted": False,
        "pushed": ["NOT line IS NULL"],
        "not_pushed": [
            {"condition": "(line RLIKE line)", "reason": "RLike is not known to succeed for every row"},
        ],
    }
    assert (two["columns"], two["pushed"], two["not_pushed"]) == ([], [], [])


def test_a_site_of_the_table_that_is_not_alive_is_refused() -> None:
    with pytest.raises(PlacementError, match="texts is bound there") as caught:
        place_batch(draft_of(COUNT, CATALOG), TOPOLOGY, (), alive=frozenset({"us", "ap"}))
    assert caught.value.hint == "Start its agent or leave it out in WHERE, by conditions on site."


def test_too_many_splits_are_refused() -> None:
    with pytest.raises(PlacementError, match="texts has 10001 splits, and at most 10000 are possible") as caught:
        plan_of(*[split("us", number, 1) for number in range(MAX_SPLITS + 1)])
    assert "SET split_size" in caught.value.hint


def test_results_of_an_insert_go_to_the_sinks_site() -> None:
    (statement,) = parse_script(f"INSERT INTO words {COUNT}")
    assert isinstance(statement, InsertInto)
    sink = CATALOG.find("words")
    assert sink is not None
    partials, counts = columns("_k0 STRING, _p0 BIGINT"), columns("line STRING, n BIGINT")
    typed = with_columns(draft_query(statement.query, CATALOG), {"map": partials, "reduce": counts}, counts)
    draft = with_sink(typed, statement.target, sink)
    plan = place_batch(draft, TOPOLOGY, (split("us", 0, 10),), alive=ALIVE)
    assert plan.destination == Destination("ap", "words")
    assert plan.sink is not None
    assert [i.stage for i in plan.sink.inputs] == ["reduce"]


def test_a_draining_site_of_the_table_is_refused_and_no_other_is_the_reduces() -> None:
    draining = TOPOLOGY.with_draining({"eu"})
    with pytest.raises(PlacementError, match=r"texts is bound there\), but it is draining"):
        place_batch(draft_of(COUNT, CATALOG), draining, (split("us", 0, 5),), alive=ALIVE)
