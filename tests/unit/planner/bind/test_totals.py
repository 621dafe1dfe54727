"""EMIT EVERY: what the stages do, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from planner.graph.plan import Totals, takes_again, upsert_keys
from planner.planning.drafts import input_columns
from planner.relations.catalog import Column
from planner.rules.combines import with_combines
from planner.rules.parts import with_parts
from planner.rules.ranges import with_ranges
from planner.sharing.vertices import vertices_of
from planner.text.logical import logical_lines
from planner.text.merges import merge_json, merge_text
from planner.values.stages import StageKind
from tests.unit.planner.build import assert_refused, catalog_of, draft_of

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, v DOUBLE, g STRING, WATERMARK FOR ts)
      WITH ('connector' = 'other') AT us AT eu;
    CREATE STREAM r (ts TIMESTAMP, k INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE t (k INT, n STRING) WITH ('connector' = 'other') AT us;
    CREATE VIEW seen AS SELECT ts, k FROM s WHERE v > 1;
    """
)
EVERY = "EMIT EVERY INTERVAL '10 seconds'"
RANK = "row_number() OVER (PARTITION BY k ORDER BY v DESC)"
CELL = "window(input.ts, '10 seconds').start"


def test_sources_send_partials_of_cells_and_the_merge_groups_all_rows_of_a_key() -> None:
    draft = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY k {EVERY}", CATALOG)
    source, merge = draft.stages
    assert source.sql == (
        "SELECT _window_start, _k0, count(*) AS _p0, pmod(xxhash64(_k0), 64) AS _bin FROM (SELECT "
        f"{CELL} AS _window_start, input.k AS _k0 FROM input) AS kept GROUP BY _window_start, _k0"
    )
    assert merge.merge is not None
    assert merge.merge.totals == Totals(("_k0",), ("k",))
    assert merge.sql == (
        "SELECT _o0 AS k, _o1 AS n, _op, _at FROM (SELECT _k0 AS _o0, _a0 AS _o1, 'upsert' AS _op, "
        "(_window_start + INTERVAL '10' SECOND) AS _at, _new FROM (SELECT _window_start, _new, _life, _k0, "
        "sum(_p0) AS _a0 FROM input GROUP BY _window_start, _new, _life, _k0) AS merged) AS cells "
        "WHERE _new AND (NOT _op IS NULL)"
    )
    assert [column.name for column in draft.columns] == ["k", "n", "_op", "_at"]
    assert takes_again(draft.stages)
    assert upsert_keys(draft.stages) == ("k",)
    assert logical_lines(draft.logical)[0] == "Changes[every 10 seconds; upsert by k]"


def test_a_group_that_having_refuses_is_deleted_if_it_was_told() -> None:
    draft = draft_of(
        f"SELECT k, count(*) AS n FROM s GROUP BY k HAVING count(*) > 3 {EVERY} STATE TTL INTERVAL '1 hour'", CATALOG
    )
    source, merge = draft.stages
    since = "timestamp_micros(unix_micros(input.ts) - pmod(unix_micros(input.ts), 10000000)) AS _since"
    assert f"{CELL} AS _window_start, {since}" in source.sql
    assert "WHEN coalesce(lag(" in merge.sql
    assert "OVER (PARTITION BY _k0, _life ORDER BY _window_start" in merge.sql
    assert merge.merge is not None
    assert merge.merge.combine_sql.endswith("GROUP BY _window_start, _since, _k0")
    assert merge.merge.totals == Totals(("_k0",), ("k",), compares=True, ttl=timedelta(hours=1))


@pytest.mark.parametrize(
    ("text", "keys", "ends", "upsert_by"),
    [
        ("SELECT count(*) AS n FROM s", (), "", ()),
        ("SELECT DISTINCT k, g FROM s", ("_k0", "_k1"), "", ("k", "g")),
        (
            "SELECT window.end AS e, k, sum(v) AS v FROM s GROUP BY k, window(ts, '1 minute')",
            ("_k0", "_k1"),
            "_k2",
            ("k", "e"),
        ),
        (
            "SELECT window(ts, '1 minute', '1 minute', '10 seconds') AS w, count(DISTINCT g) AS n FROM s GROUP BY 1",
            ("_k0",),
            "_k1",
            ("w",),
        ),
        ("SELECT date_format(ts, 'yyyy-MM') AS m, median(v) AS n FROM s GROUP BY m", ("_k0",), "_k1", ("m",)),
        ("SELECT s.k, n, count(*) AS c FROM s JOIN t ON s.k = t.k GROUP BY s.k, n", ("_k0", "_k1"), "", ("k", "n")),
        (
            "SELECT k, count(*) AS c FROM (SELECT ts, k FROM s UNION ALL SELECT ts, k FROM r) GROUP BY k",
            ("_k0",),
            "",
            ("k",),
        ),
        ("SELECT k, count(*) AS c FROM seen GROUP BY k", ("_k0",), "", ("k",)),
    ],
)
def test_what_the_keys_are_and_when_they_end(
    text: str, keys: tuple[str, ...], ends: str, upsert_by: tuple[str, ...]
) -> None:
    merge = draft_of(f"{text} {EVERY}", CATALOG).stages[-1].merge
    assert merge is not None
    assert merge.totals == Totals(keys, upsert_by, ends=ends)
    assert merge.window == timedelta(seconds=10)


def test_rows_of_windows_are_added_up_by_when_these_end() -> None:
    windows = "SELECT k, window.end AS e, count(*) AS n FROM s GROUP BY k, window(ts, '1 minute')"
    draft = draft_of(f"SELECT k, max(n) AS most FROM ({windows}) WHERE n > 1 GROUP BY k {EVERY}", CATALOG)
    _, windowed, merge = draft.stages
    assert "window(input.e, '10 seconds').start AS _window_start" in windowed.sql
    assert "WHERE input.n > 1" in windowed.sql
    assert merge.merge is not None
    assert merge.merge.totals == Totals(("_k0",), ("k",))
    started = windows.replace("window.end", "window.start")
    *_, merge = draft_of(f"SELECT k, max(n) AS most FROM ({started}) GROUP BY k {EVERY}", CATALOG).stages
    assert merge.inputs[0].behind == timedelta(minutes=1)


def test_pairs_are_added_up_by_cells_of_their_first_stream() -> None:
    text = (
        "SELECT s.k, count(*) AS c FROM s JOIN r ON s.k = r.k AND r.ts BETWEEN s.ts AND s.ts + INTERVAL '1 hour' "
        f"GROUP BY s.k {EVERY}"
    )
    *_, pairs, merge = draft_of(text, CATALOG).stages
    assert pairs.merge is not None
    assert pairs.merge.pairs is not None
    assert merge.merge is not None
    assert merge.merge.totals is not None
    assert merge.inputs[0].behind == timedelta(hours=1)


def test_ranks_keep_the_first_rows_of_each_key() -> None:
    draft = draft_of(f"SELECT *, {RANK} AS place FROM s QUALIFY place <= 3 {EVERY}", CATALOG)
    source, merge = draft.stages
    assert source.sql.endswith("WHERE _rank <= 3")
    assert merge.merge is not None
    assert merge.merge.combine_sql.endswith("WHERE _rank <= 3")
    assert merge.merge.totals == Totals(("_k0",), ("k", "place"), compares=True)
    assert "_rank AS _o4" in merge.sql
    assert "IS NOT DISTINCT FROM struct(" in merge.sql


@pytest.mark.parametrize("named", ["v", RANK])
def test_a_rank_may_have_the_name_of_a_column_that_it_orders_by(named: str) -> None:
    draft = draft_of(f"SELECT k, {RANK} AS v FROM s QUALIFY {named} <= 3 {EVERY}", CATALOG)
    assert draft.stages[0].sql.count("row_number()") == 1
    assert "input.v AS _c1" in draft.stages[0].sql


def test_the_newest_row_of_a_key_needs_no_rank() -> None:
    draft = draft_of(
        f"SELECT * FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts DESC) = 1 {EVERY}", CATALOG
    )
    assert upsert_keys(draft.stages) == ("k",)


def test_rows_that_wait_have_flags() -> None:
    *_, merge = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY k {EVERY}", CATALOG).stages
    found = input_columns(merge, {"s1": (Column("_k0", "INT"),)})
    assert [column.name for column in found["input"]] == ["_k0", "_new", "_life"]


def test_sites_combine_cells_and_parts_share_keys() -> None:
    draft = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY k HAVING count(*) > 1 {EVERY}", CATALOG)
    combined = with_combines(draft)
    assert [stage.kind for stage in combined.stages] == [StageKind.SOURCE, StageKind.COMBINE, StageKind.MERGE]
    *_, merge = with_parts(draft, 4).stages
    assert merge.parts == 4
    *_, marked = with_ranges(draft).stages
    assert marked.merge is not None
    assert marked.merge.by_bins
    ranks = draft_of(f"SELECT *, {RANK} AS place FROM s QUALIFY place <= 3 {EVERY}", CATALOG)
    *_, marked = with_ranges(ranks).stages
    assert marked.merge is not None
    assert marked.merge.by_bins
    (*_, last) = marked.merge.combine.items  # type: ignore[union-attr]
    assert last.name == "_bin"
    *_, merge = with_parts(ranks, 4).stages
    assert merge.parts == 4


def test_only_queries_that_forget_alike_share_what_they_add_up() -> None:
    texts = [
        f"SELECT k, count(*) AS n FROM s GROUP BY k {EVERY}",
        f"SELECT k AS key, count(*) AS n FROM s GROUP BY k {EVERY}",
        f"SELECT k, count(*) AS n FROM s GROUP BY k {EVERY} STATE TTL '1 hour'",
        f"SELECT k, count(*) AS n FROM s GROUP BY k {EVERY} STATE TTL '2 hours'",
        "SELECT k, count(*) AS n FROM s GROUP BY k, window(ts, '10 seconds')",
    ]
    found = []
    for text in texts:
        draft = draft_of(text, CATALOG)
        vertices = vertices_of(draft, CATALOG.relations, {}, owner="q", gateway="us")
        found.append([vertex.fingerprint for vertex in vertices][:-1])
    sources = [fingerprints[0] for fingerprints in found]
    assert sources[0] == sources[1] == sources[4]
    assert sources[2] == sources[3] != sources[0]
    merges = [fingerprints[-1] for fingerprints in found]
    assert merges[0] == merges[1]
    assert len({*merges[1:]}) == 4


def test_explain_says_when_changes_come_out_and_what_is_kept() -> None:
    text = f"SELECT k, window.start AS w, count(*) AS n FROM s GROUP BY k, window(ts, '1 hour') {EVERY}"
    *_, merge = draft_of(text, CATALOG).stages
    assert merge_text(merge.merge) == (
        "emits, for every 10 seconds of event time, what has changed: upsert by (k, w)\n"
        "keeps what each key adds up to until no more rows of it can come"
    )
    *_, merge = draft_of(f"SELECT count(*) AS n FROM s {EVERY}", CATALOG).stages
    assert merge_text(merge.merge) == (
        "emits, for every 10 seconds of event time, what has changed: one row, upserted\n"
        "keeps what each key adds up to for ever: STATE TTL would let silent keys go"
    )
    *_, merge = draft_of(f"SELECT k FROM s GROUP BY k {EVERY} STATE TTL INTERVAL 1 MINUTE", CATALOG).stages
    fields = merge_json(merge.merge)
    assert fields is not None
    assert fields["totals"] == {"keys": ["_k0"], "upsert_by": ["k"], "ttl_s": 60.0, "ends": ""}
    assert "until it had no rows for 1 minute" in merge_text(merge.merge)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT k FROM (SELECT k FROM s GROUP BY k {EVERY}) AS d", "only at the end of a whole query"),
        ("SELECT k FROM s GROUP BY k EMIT EVERY '100 milliseconds'", "at least a second"),
        ("SELECT k FROM s GROUP BY k EMIT EVERY INTERVAL '1 month'", "fixed length"),
        (f"SELECT k FROM s GROUP BY k {EVERY} STATE TTL INTERVAL '15 seconds'", "multiple"),
        (f"SELECT k FROM s UNION ALL SELECT k FROM r {EVERY}", "they share keys"),
        (f"SELECT k, n FROM t {EVERY}", "over streams only"),
        (f"SELECT k, v FROM s {EVERY}", "goes with GROUP BY, or with QUALIFY"),
        (f"SELECT count(*) AS n FROM s GROUP BY k {EVERY}", "must have all keys"),
        (f"SELECT k, v FROM s GROUP BY k {EVERY}", "neither a group key"),
        (f"SELECT k, collect_list(v) AS c FROM s GROUP BY k {EVERY}", "all values of a key for ever"),
        (f"SELECT k, count(DISTINCT v) FILTER (WHERE v > 1) AS c FROM s GROUP BY k {EVERY}", "all values of a key"),
        (f"SELECT k, count(*) AS _at FROM s GROUP BY k {EVERY}", "can be called _at"),
        (f"SELECT k, count(*) AS n FROM s GROUP BY k QUALIFY rank() OVER (ORDER BY n) < 3 {EVERY}", "groups that"),
        (f"SELECT k, v FROM s QUALIFY rank() OVER (PARTITION BY k ORDER BY v) < 3 {EVERY}", r"rank\(\) is not"),
        (f"SELECT k, v FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) < 3 {EVERY}", "have the rank"),
        (f"SELECT k, {RANK} FROM s QUALIFY {RANK} < 3 {EVERY}", "needs a name"),
        (f"SELECT v FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) = 1 {EVERY}", "all keys"),
        (
            f"SELECT k FROM s GROUP BY k, window(ts, '1 minute', '10 seconds') {EVERY}",
            "windows that follow one another",
        ),
        (f"SELECT k FROM s GROUP BY k, session_window(ts, '1 minute') {EVERY}", "windows that follow"),
        (f"SELECT k, window.start FROM s GROUP BY k, window(ts, '25 seconds') {EVERY}", "do not begin"),
        (
            f"SELECT k, n FROM (SELECT window(ts, '1 minute') AS w, k, count(*) AS n FROM s GROUP BY w, k) {EVERY}",
            "does not select when its windows end",
        ),
        (
            "SELECT s.k, count(*) AS n FROM s JOIN r ON s.k = r.k AND window(s.ts, '1 minute') = window(r.ts, "
            f"'1 minute') GROUP BY s.k {EVERY}",
            "joined in windows",
        ),
    ],
)
def test_what_is_not_possible_is_refused_with_its_place(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)
