"""Filters by keys: which are chosen, and the stages that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.graph.batchoptions import KeyFilters
from planner.graph.plan import DraftPlan, Split
from planner.graph.whole import Scanned
from planner.planning.drafts import with_columns, with_texts
from planner.relations.catalog import Column, TableStatistics
from planner.rules.draft import with_scans
from planner.rules.keyfilters import MAX_KEY_ROWS, with_key_filters
from planner.values.scans import KeyFilter, SparkExpression, TableScan, Threshold
from planner.values.stages import StageKind
from planner.values.topology import Link, Topology
from tests.unit.planner.build import catalog_of, columns, draft_of

CATALOG = catalog_of(
    """
    CREATE TABLE lines (o BIGINT, price DOUBLE, note STRING) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE orders (o BIGINT, c BIGINT, day DATE) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE customers (c BIGINT, segment STRING) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE days (n INT) WITH ('connector' = 'other') AT us;
    """
)
SEGMENT = SparkExpression(
    "EqualTo",
    "BOOLEAN",
    None,
    (SparkExpression("AttributeReference", "STRING", "segment"), SparkExpression("Literal", "STRING", "BUILDING")),
)
SEGMENT_OF_NOTE = replace(SEGMENT, arguments=(replace(SEGMENT.arguments[0], text="note"), SEGMENT.arguments[1]))
TEXT = "SELECT lines.price FROM lines, orders, customers WHERE lines.o = orders.o AND orders.c = customers.c"
LINES = TableScan("lines", ("o", "price", "note"), (), (KeyFilter("o", 1, "o"),))
ORDERS = TableScan("orders", ("o", "c", "day"), (), (KeyFilter("o", 0, "o"), KeyFilter("c", 2, "c")))
CUSTOMERS = TableScan("customers", ("c",), (SEGMENT,), (KeyFilter("c", 1, "c"),))
ROWS = {"map": 600_000, "map2": 150_000, "map3": 15_000}
PAIRS = (("us", "eu"), ("eu", "us"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SLOW = Topology({}, {pair: Link(*pair, 4e5, timedelta(milliseconds=50)) for pair in PAIRS}, "us")
FAST = Topology({}, {(a, b): replace(link, bandwidth_bytes_per_s=1e10) for (a, b), link in SLOW.links.items()}, "us")


def whole(*scans: TableScan, text: str = TEXT) -> DraftPlan:
    draft = with_scans(draft_of(text, CATALOG), Scanned(columns("price DOUBLE"), scans))
    types = {
        stage.id: tuple(c for c in draft.relations[stage.relation or ""] if c.name in stage.read_columns)
        for stage in draft.map_stages
    }
    return with_columns(draft, types, draft.columns)


def filtered(
    draft: DraftPlan,
    mode: KeyFilters = KeyFilters.TIME,
    links: Topology = SLOW,
    rows: Mapping[str, int | None] | None = None,
) -> DraftPlan:
    known = {**ROWS, **(rows or {})}
    splits = [
        Split(site, (), 1000, stage.id, rows=None if (count := known[stage.id]) is None else count // 2)
        for stage in draft.map_stages
        for site in stage.pinned
    ]
    return with_texts(with_key_filters(draft, splits, links, mode))


def taken(draft: DraftPlan) -> list[str]:
    return [f"{f.table}.{f.column} by {f.giver}.{f.giver_column}" for f in draft.considered if f.taken]


def test_the_smallest_table_gives_its_keys_first_and_the_filtered_one_its_own() -> None:
    draft = filtered(whole(LINES, ORDERS, CUSTOMERS))
    assert taken(draft) == ["orders.c by customers.c", "lines.o by orders.o"]
    assert [(stage.id, stage.kind, stage.pinned) for stage in draft.stages[:2]] == [
        ("keys", StageKind.TABLE, ("eu", "us")),
        ("keys2", StageKind.TABLE, ("eu", "us")),
    ]
    join = "(SELECT _key FROM {0} GROUP BY _key) AS of_{0} ON input.{1} = of_{0}._key"
    assert {stage.id: stage.sql for stage in draft.stages[:-1]} == {
        "keys": "SELECT input.c AS _key FROM input WHERE input.segment = 'BUILDING' GROUP BY input.c ORDER BY _key",
        "keys2": f"SELECT input.o AS _key FROM input JOIN {join.format('keys', 'c')} GROUP BY input.o ORDER BY _key",
        "map": f"SELECT o, price, note FROM input JOIN {join.format('keys2', 'o')}",
        "map2": f"SELECT o, c, day FROM input JOIN {join.format('keys', 'c')}",
        "map3": "SELECT c FROM input WHERE input.segment = 'BUILDING'",
    }
    assert [item.view for item in draft.stage("keys2").inputs] == ["keys"]
    assert [item.view for item in draft.stage("map").inputs] == ["keys2"]
    assert draft.stage("keys2").columns == (Column("_key", "BIGINT"),)
    orders = draft.considered[0]
    assert (orders.keys, orders.key_bytes) == (1500, 1560)


def test_what_a_filter_has_to_be_worth() -> None:
    draft = whole(LINES, ORDERS, CUSTOMERS)
    assert taken(filtered(draft, links=FAST)) == []
    assert taken(filtered(draft, KeyFilters.BYTES, FAST)) == taken(filtered(draft))
    assert taken(filtered(draft, KeyFilters.NEVER)) == []
    assert filtered(draft, KeyFilters.NEVER).stages == with_texts(draft).stages
    (customers, lines) = filtered(draft, links=FAST).considered
    assert customers.reason == "it saves 0.096 s, and one more step takes 0.61 s"
    assert (lines.taken, lines.reason) == (False, "the keys are more than they save")
    unfiltered = replace(CUSTOMERS, conditions=())
    assert taken(filtered(whole(LINES, ORDERS, unfiltered), KeyFilters.BYTES)) == []
    assert len(taken(filtered(whole(LINES, ORDERS, unfiltered), KeyFilters.ALWAYS))) == 4


def test_rows_that_are_not_handled_save_time_however_fast_links_are() -> None:
    many = {"map": 6_000_000, "map2": 1_500_000, "map3": 150_000}
    found = filtered(whole(LINES, ORDERS, CUSTOMERS), links=FAST, rows=many)
    assert taken(found) == ["orders.c by customers.c", "lines.o by orders.o"]
    customers, _ = found.considered
    assert customers.reason == "it saves 0.96 s, and one more step takes 0.67 s"


def test_without_links_between_them_nothing_is_sent() -> None:
    draft = filtered(whole(LINES, ORDERS, CUSTOMERS), links=Topology({}, {}, "us"))
    assert [f.reason for f in draft.considered][:1] == ["no link is between their sites"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ({"map3": None}, "its rows are not known"),
        ({"map3": 0}, "no row gives a key"),
        ({"map2": None}, "its rows are not known"),
        ({"map": 10 * MAX_KEY_ROWS, "map2": MAX_KEY_ROWS + 2}, f"more than {MAX_KEY_ROWS} keys are possible"),
    ],
)
def test_tables_whose_keys_are_not_sent(rows: dict[str, int | None], reason: str) -> None:
    draft = filtered(whole(LINES, ORDERS, CUSTOMERS), KeyFilters.ALWAYS, rows=rows)
    assert reason in {f.reason for f in draft.considered if not f.taken}


def test_sites_without_rows_give_no_keys() -> None:
    draft = whole(LINES, ORDERS, CUSTOMERS)
    rows = {"us": 1000, "eu": 0}
    splits = [Split(site, (), 1, stage.id, rows=rows[site]) for stage in draft.map_stages for site in stage.pinned]
    found = with_key_filters(draft, splits, SLOW, KeyFilters.ALWAYS)
    assert {stage.pinned for stage in found.stages if stage.kind is StageKind.TABLE} == {("us",)}
    assert found.stage("map").pinned == ("eu", "us")


def test_counted_values_say_what_a_filter_is_worth() -> None:
    text = "SELECT 1.0 AS price FROM orders RIGHT JOIN customers ON true"
    draft = whole(replace(ORDERS, filters=(KeyFilter("c", 1, "c"),)), replace(CUSTOMERS, filters=()), text=text)
    rows = {"map": 150_000, "map2": 15_000}
    splits = [Split(s, (), 1000, m, rows=n // 2) for m, n in rows.items() for s in ("us", "eu")]

    def expected(**distinct: int) -> tuple[int, int]:
        counted = {"orders": TableStatistics(150_000, distinct, NOW)}
        (found,) = with_key_filters(draft, splits, SLOW, KeyFilters.ALWAYS, counted).considered
        return found.keys, found.saved_bytes

    keys, saved = expected()
    assert 0 < keys < 15_000
    assert expected(c=15_000) == (keys, saved)
    assert expected(c=keys) == (keys, 0)
    assert expected(c=60_000)[1] > saved > 0


def test_rows_that_no_footer_has_come_from_the_count() -> None:
    draft = whole(LINES, ORDERS, CUSTOMERS)
    # Even of those that have no size, as with tables of other connectors, each may have rows that give keys.
    splits = [Split(s, (), 1000 * (s == "us"), stage.id) for stage in draft.map_stages for s in stage.pinned]
    assert {f.reason for f in with_key_filters(draft, splits, SLOW).considered} == {"its rows are not known"}
    counted = {
        name: TableStatistics(n, {}, NOW)
        for name, n in zip(("lines", "orders", "customers"), ROWS.values(), strict=True)
    }
    found = with_key_filters(draft, splits, SLOW, KeyFilters.TIME, counted)
    assert taken(found) == taken(filtered(draft)) != []
    assert {s.pinned for s in found.stages if s.kind is StageKind.TABLE} == {("eu", "us")}


def test_keys_of_int_are_sent_as_bigint_which_compresses_better() -> None:
    scans = (replace(ORDERS, filters=(KeyFilter("c", 1, "n"),)), TableScan("days", ("n",)))
    draft = filtered(whole(*scans, text="SELECT 1.0 AS price FROM orders, days"), KeyFilters.ALWAYS)
    assert draft.stage("keys").columns == (Column("_key", "BIGINT"),)
    text = draft.stage("keys").sql.replace("\n", " ")
    assert text == "SELECT CAST(input.n AS BIGINT) AS _key FROM input GROUP BY input.n ORDER BY _key"


def test_keys_of_other_types_are_not_sent() -> None:
    scans = (replace(LINES, filters=(KeyFilter("note", 1, "segment"),)), TableScan("customers", ("segment",)))
    draft = filtered(whole(*scans, text="SELECT price FROM lines, customers"), KeyFilters.ALWAYS)
    assert [(f.taken, f.reason) for f in draft.considered] == [(False, "keys of the type STRING are not sent")]


def test_a_table_is_filtered_when_each_of_its_scans_may_be() -> None:
    text = "SELECT a.price FROM lines a, lines b, orders"
    both = filtered(whole(LINES, replace(LINES), replace(ORDERS, filters=()), text=text), KeyFilters.ALWAYS)
    assert taken(both) == []
    wanted = (KeyFilter("o", 2, "o"),)
    one = whole(replace(LINES, filters=wanted), replace(LINES, filters=()), replace(ORDERS, filters=()), text=text)
    assert filtered(one, KeyFilters.ALWAYS).considered == ()
    two = whole(replace(LINES, filters=wanted), replace(LINES, filters=wanted), replace(ORDERS, filters=()), text=text)
    assert taken(filtered(two, KeyFilters.ALWAYS)) == ["lines.o by orders.o"]


def test_rows_that_are_sent_once_are_filtered_before_that() -> None:
    days = replace(ORDERS, columns=("c", "day"), filters=(KeyFilter("c", 1, "c"),), distinct=True)
    text = "SELECT 1.0 AS price FROM orders RIGHT JOIN customers ON orders.c = customers.c"
    draft = filtered(
        whole(days, replace(CUSTOMERS, filters=()), text=text), KeyFilters.ALWAYS, rows={"map": 9, "map2": 3}
    )
    assert taken(draft) == ["orders.c by customers.c"]
    assert draft.stage("map").sql.replace("\n", " ") == (
        "SELECT c, day FROM input JOIN (SELECT _key FROM keys GROUP BY _key) AS of_keys "
        "ON input.c = of_keys._key GROUP BY c, day"
    )


def test_two_columns_are_filtered_by_the_same_keys() -> None:
    by_both = replace(ORDERS, filters=(KeyFilter("o", 1, "c"), KeyFilter("c", 1, "c")))
    text = "SELECT 1.0 AS price FROM orders, customers WHERE orders.o = customers.c AND orders.c = customers.c"
    draft = filtered(whole(by_both, replace(CUSTOMERS, filters=()), text=text), KeyFilters.ALWAYS)
    assert taken(draft) == ["orders.o by customers.c", "orders.c by customers.c"]
    keys = "(SELECT _key FROM keys GROUP BY _key)"
    assert draft.stage("map").sql.replace("\n", " ") == (
        f"SELECT o, c, day FROM input JOIN {keys} AS of_keys ON input.o = of_keys._key "
        f"JOIN {keys} AS of_keys_c ON input.c = of_keys_c._key"
    )
    assert [item.stage for item in draft.stage("map").inputs] == ["keys"]


def test_two_scans_of_a_giver_with_the_same_conditions_give_the_same_keys() -> None:
    """This happens in a sub-query that repeats the joins of the query around it."""
    text = "SELECT a.price FROM lines a, lines b, orders c, orders d"
    lines = [replace(LINES, filters=(KeyFilter("o", giver, "o"),)) for giver in (2, 3)]
    orders = replace(ORDERS, filters=())
    assert taken(filtered(whole(*lines, orders, orders, text=text), KeyFilters.ALWAYS)) == ["lines.o by orders.o"]
    other = replace(orders, conditions=(replace(SEGMENT, arguments=(replace(SEGMENT.arguments[0], text="day"),) * 2),))
    assert filtered(whole(*lines, orders, other, text=text), KeyFilters.ALWAYS).considered == ()


def test_scans_of_one_table_do_not_filter_it() -> None:
    scans = (replace(LINES, filters=(KeyFilter("o", 1, "o"),)), replace(LINES, filters=(KeyFilter("o", 0, "o"),)))
    assert filtered(whole(*scans, text="SELECT a.price FROM lines a, lines b"), KeyFilters.ALWAYS).considered == ()


NEVER_NULL = SparkExpression("IsNotNull", "BOOLEAN", None, (SparkExpression("AttributeReference", "BIGINT", "o"),))


BY_OWN = KeyFilter("o", 0, "o")


def of_two_scans(*conditions: SparkExpression, other: KeyFilter = BY_OWN) -> DraftPlan:
    """Lines of the orders of one customer, and other lines of these orders."""
    lines = [
        TableScan("lines", ("o", "price"), conditions, (KeyFilter("o", 2, "o"), KeyFilter("o", 1, "o"))),
        TableScan("lines", ("o", "note"), (), (other,)),
    ]
    text = "SELECT a.price FROM lines a, lines b, orders, customers"
    customers = replace(CUSTOMERS, filters=())
    return whole(
        *lines, replace(ORDERS, filters=(KeyFilter("c", 3, "c"), KeyFilter("o", 0, "o"))), customers, text=text
    )


def test_what_filters_one_scan_filters_the_table_by_the_keys_of_that_scan() -> None:
    draft = filtered(of_two_scans(NEVER_NULL), KeyFilters.ALWAYS)
    assert taken(draft)[:2] == ["orders.c by customers.c", "lines.o by lines.o"]
    own = draft.stage("keys3")
    assert own.relation == "lines"
    assert [item.stage for item in own.inputs] == ["keys2"]
    assert own.sql.replace("\n", " ") == (
        "SELECT input.o AS _key FROM input JOIN (SELECT _key FROM keys2 GROUP BY _key) AS of_keys2 "
        "ON input.o = of_keys2._key WHERE (NOT input.o IS NULL) GROUP BY input.o ORDER BY _key"
    )
    assert draft.stage("keys2").relation == "orders"
    assert draft.stage("map").inputs[0].stage == "keys3"


def test_what_filters_one_scan_by_a_column_filters_the_table_on_the_way_back() -> None:
    """Its own keys of the column, which are fewer, have filtered the others before."""
    draft = filtered(of_two_scans(NEVER_NULL), KeyFilters.ALWAYS, rows={"map": 2000})
    found = taken(draft)
    assert found.index("lines.o by lines.o") < found.index("orders.o by lines.o")
    assert found.index("orders.o by lines.o") < found.index("lines.o by orders.o")
    without = filtered(of_two_scans(), KeyFilters.ALWAYS, rows={"map": 2000})
    assert "lines.o by orders.o" not in taken(without)


def test_keys_of_a_scan_that_may_be_null_do_not_stand_for_its_rows() -> None:
    assert "lines.o by lines.o" not in taken(filtered(of_two_scans(), KeyFilters.ALWAYS))
    other = of_two_scans(NEVER_NULL, other=KeyFilter("o", 2, "o"))
    assert "lines.o by lines.o" not in taken(filtered(other, KeyFilters.ALWAYS))


def test_a_query_in_parts_stays_as_it_is() -> None:
    draft = draft_of("SELECT price FROM lines", CATALOG)
    assert with_key_filters(draft, (), SLOW, KeyFilters.ALWAYS) is draft


EDGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)).filter(lambda edge: edge[0] != edge[1]), max_size=6)


@given(EDGES, st.lists(st.integers(0, 10_000), min_size=3, max_size=3))
def test_keys_are_made_before_they_are_read_and_of_no_stage_that_sends(
    edges: list[tuple[int, int]], rows: list[int]
) -> None:
    columns_of_scans = (("o", "price", "note"), ("o", "c", "day"), ("c",))
    scans = [
        TableScan(
            name,
            columns_of_scans[number],
            (),
            tuple(KeyFilter(columns_of_scans[n][0], giver, "c" if giver else "o") for n, giver in edges if n == number),
        )
        for number, name in enumerate(("lines", "orders", "customers"))
    ]
    draft = filtered(whole(*scans), KeyFilters.ALWAYS, rows=dict(zip(ROWS, rows, strict=True)))
    made: set[str] = set()
    for stage in draft.stages:
        assert all(item.stage in made for item in stage.inputs)
        made.add(stage.id)
    by_relation = {stage.relation: stage for stage in draft.map_stages}
    for stage in draft.stages:
        if stage.kind is StageKind.TABLE:
            # A table gives keys with the first of its filters, and sends rows with all of them.
            inputs = by_relation[stage.relation].inputs
            assert stage.inputs == inputs[: len(stage.inputs)]


def test_a_table_that_gave_its_keys_is_filtered_by_those_of_the_table_that_it_gave_them_to() -> None:
    orders = replace(ORDERS, conditions=(replace(SEGMENT, arguments=(replace(SEGMENT.arguments[0], text="day"),) * 2),))
    lines = replace(LINES, conditions=(SEGMENT_OF_NOTE,))
    draft = filtered(whole(lines, orders, replace(CUSTOMERS, filters=())), KeyFilters.BYTES)
    assert taken(draft) == ["orders.c by customers.c", "lines.o by orders.o", "orders.o by lines.o"]
    assert [item.stage for item in draft.stage("map2").inputs] == ["keys", "keys3"]
    assert [item.stage for item in draft.stage("keys3").inputs] == ["keys2"]
    assert [item.stage for item in draft.stage("keys2").inputs] == ["keys"]
    back = next(f for f in draft.considered if f.table == "orders" and f.column == "o")
    there = next(f for f in draft.considered if f.table == "lines")
    # Few of the keys that lines got are left by its own condition.
    assert back.keys < there.keys / 2


def test_filters_of_a_second_way_make_the_keys_of_the_first_fewer() -> None:
    """Orders give their keys to lines before customers, which are more, give theirs."""
    few = replace(
        ORDERS, conditions=(replace(SEGMENT, arguments=(replace(SEGMENT.arguments[0], text="day"),) * 2),) * 2
    )
    draft = filtered(whole(LINES, few, replace(CUSTOMERS, columns=("c", "segment"))), KeyFilters.BYTES)
    found = taken(draft)
    assert found.index("lines.o by orders.o") < found.index("orders.c by customers.c")
    assert found.count("lines.o by orders.o") == 2
    first, again = (f for f in draft.considered if (f.table, f.taken) == ("lines", True))
    assert again.keys < first.keys


LARGE = Threshold("o", "n", "100")


def of_large_orders(
    threshold: Threshold = LARGE, filters: tuple[KeyFilter, ...] = (KeyFilter("o", 0, "o"),)
) -> DraftPlan:
    """Customers of the orders whose lines add up to something."""
    catalog = catalog_of(
        """
        CREATE TABLE orders (o BIGINT, c BIGINT) WITH ('connector' = 'other') AT us AT eu;
        CREATE TABLE lines (o BIGINT, n INT, x DECIMAL(9,2), d DOUBLE, w DECIMAL(30,2))
          WITH ('connector' = 'other') AT us AT eu;
        """
    )
    text = "SELECT c AS price FROM orders WHERE o IN (SELECT o FROM lines GROUP BY o HAVING sum(n) > 100)"
    scans = (
        TableScan("orders", ("o", "c"), (), (KeyFilter("o", 1, "o"),)),
        TableScan("lines", ("o", "n"), (), filters, thresholds=(threshold,)),
    )
    draft = with_scans(draft_of(text, catalog), Scanned(columns("price BIGINT"), scans))
    types = {
        stage.id: tuple(c for c in draft.relations[stage.relation or ""] if c.name in stage.read_columns)
        for stage in draft.map_stages
    }
    return with_columns(draft, types, draft.columns)


def with_known_values(draft: DraftPlan, mode: KeyFilters = KeyFilters.BYTES, least: float = 0) -> DraftPlan:
    rows = {"orders": 100_000, "lines": 400_000}
    known = {
        "orders": TableStatistics(100_000, {"o": 100_000, "c": 1000}, NOW, {"o": (1, 100_000)}),
        "lines": TableStatistics(400_000, {"o": 100_000}, NOW, {"o": (1, 100_000), "n": (least, 50)}),
    }
    splits = [
        Split(site, (), 1000, stage.id, rows=rows[stage.relation or ""] // 2)
        for stage in draft.map_stages
        for site in stage.pinned
    ]
    return with_texts(with_key_filters(draft, splits, SLOW, mode, known))


def test_keys_of_groups_are_sent_that_are_large_at_a_site() -> None:
    draft = with_known_values(of_large_orders(replace(LARGE, at_least="300")))
    assert taken(draft) == ["lines.o by lines.o", "orders.o by lines.o"]
    large, orders = draft.considered[:2]
    assert large.threshold == "sum(n) >= 300"
    # Of orders with four lines, half of them at each site, few have 150 at one.
    assert 100 < large.keys < 5000
    assert orders.keys <= large.keys
    own = draft.stage("keys")
    assert own.sql.replace("\n", " ") == (
        "SELECT input.o AS _key FROM input GROUP BY input.o "
        "HAVING sum(CAST(greatest(input.n, CAST(0 AS INT)) AS DECIMAL(28,0))) >= CAST('150' AS DECIMAL(28,0)) "
        "ORDER BY _key"
    )
    assert set(own.read_columns) == {"o", "n"}
    assert [item.stage for item in draft.stage("map2").inputs] == ["keys"]
    assert [item.stage for item in draft.stage("keys2").inputs] == ["keys"]


def test_where_most_groups_are_large_no_keys_are_sent_for_that() -> None:
    draft = with_known_values(of_large_orders(replace(LARGE, at_least="60")))
    assert "lines.o by lines.o" not in taken(draft)
    assert "lines.o by lines.o" not in taken(filtered(of_large_orders(), KeyFilters.BYTES))


@pytest.mark.parametrize(
    ("summand", "at_least", "having"),
    [
        (None, "3", "COUNT(*) >= CAST('2' AS BIGINT)"),
        ("x", "3.01", "sum(CAST(greatest(input.x, CAST(0 AS DECIMAL(9,2))) AS DECIMAL(28,2))) >= CAST('1.51' AS"),
    ],
)
def test_an_equal_part_of_the_bound_is_looked_for_at_each_site(summand: str | None, at_least: str, having: str) -> None:
    draft = with_known_values(of_large_orders(Threshold("o", summand, at_least)), KeyFilters.ALWAYS)
    found, *_ = (stage.sql.replace("\n", " ") for stage in draft.stages if "HAVING" in stage.sql)
    assert f"HAVING {having}" in found


@pytest.mark.parametrize(
    ("threshold", "filters"),
    [
        (Threshold("o", "d", "100"), (KeyFilter("o", 0, "o"),)),
        (Threshold("o", "w", "100"), (KeyFilter("o", 0, "o"),)),
        (Threshold("o", "n", "0"), (KeyFilter("o", 0, "o"),)),
        (Threshold("o", "n", "-5"), (KeyFilter("o", 0, "o"),)),
        # A group of NULL may be in the result.
        (LARGE, ()),
        (LARGE, (KeyFilter("n", 0, "c"),)),
    ],
)
def test_groups_whose_keys_are_not_sent(threshold: Threshold, filters: tuple[KeyFilter, ...]) -> None:
    draft = with_known_values(of_large_orders(threshold, filters), KeyFilters.ALWAYS)
    assert not any(considered.threshold for considered in draft.considered)


def test_another_scan_of_the_table_has_to_follow_in_steps() -> None:
    """Lines of orders whose lines add up to something: lines by orders, orders by the lines that are summed."""
    large = TableScan("lines", ("o",), (), (KeyFilter("o", 2, "o"),), thresholds=(Threshold("o", None, "9"),))
    lines = replace(LINES, filters=(KeyFilter("o", 2, "o"),))
    orders = replace(ORDERS, filters=(KeyFilter("o", 0, "o"),))
    text = "SELECT b.price FROM lines a, lines b, orders"
    rows = {"map": 600_000, "map2": 150_000}
    followed = filtered(whole(large, lines, orders, text=text), KeyFilters.ALWAYS, rows=rows)
    assert taken(followed).count("lines.o by lines.o") == 1
    alone = filtered(whole(large, lines, replace(orders, filters=()), text=text), KeyFilters.ALWAYS, rows=rows)
    assert "lines.o by lines.o" not in taken(alone)
    # Spark may have made two scans of one.
    twice = filtered(whole(large, lines, orders, large, text=f"{text}, lines c"), KeyFilters.ALWAYS, rows=rows)
    assert taken(twice).count("lines.o by lines.o") == 1
