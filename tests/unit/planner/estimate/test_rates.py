from __future__ import annotations

import pytest

from planner.estimate.rates import estimate_flows, rows_per_s, task_rates
from planner.graph.plan import RelationStats, Statistics
from planner.planning.drafts import with_columns
from planner.relations.widths import type_bytes
from tests.unit.planner.build import catalog_of, columns, draft_of

NOTHING = Statistics()
RATED = catalog_of(
    """CREATE STREAM s (k INT, v DOUBLE, ts TIMESTAMP, WATERMARK FOR ts) WITH ('connector' = 'push')
    AT us WITH ('rows_per_second' = '500'), AT eu"""
)


def test_rates_are_measured_declared_or_assumed() -> None:
    shape = draft_of("SELECT k FROM s", RATED).shapes["s1"]
    measured = Statistics({("s", "us"): RelationStats(70.0, measured=True)})
    assert rows_per_s(shape, "us", measured) == 70.0
    assert rows_per_s(shape, "us", NOTHING) == 500.0
    assert rows_per_s(shape, "eu", NOTHING) == 1000.0


@pytest.mark.parametrize(
    ("where", "share"),
    [("", 1.0), ("WHERE v > 1", 1 / 3), ("WHERE k = 1", 0.1), ("WHERE k = 1 AND v > 1 AND site = 'us'", 1 / 30)],
)
def test_filters_take_their_share(where: str, share: float) -> None:
    draft = with_columns(
        draft_of(f"SELECT k, v FROM s {where}", RATED), {"s1": columns("k INT, v DOUBLE")}, columns("k INT, v DOUBLE")
    )
    (estimate,) = estimate_flows(draft, NOTHING)
    assert estimate.results is None
    assert estimate.sources["us"].rows_per_s == pytest.approx(500 * share)
    assert estimate.sources["us"].bytes_per_s == pytest.approx(500 * share * 12)


@pytest.mark.parametrize(
    ("keys", "groups"), [("", 1.0), (", k", 100.0), (", k, v", 500.0)], ids=["none", "one", "two, capped by the rows"]
)
def test_partials_are_the_groups_of_an_epoch(keys: str, groups: float) -> None:
    draft = draft_of(f"SELECT count(*) AS n FROM s GROUP BY window(ts, '10 seconds'){keys}", RATED)
    assert estimate_flows(draft, NOTHING)[0].sources["us"].rows_per_s == groups


def test_a_group_leaves_once_though_it_is_in_several_windows() -> None:
    draft = draft_of("SELECT k, count(*) AS n FROM s GROUP BY window(ts, '20 seconds', '5 seconds'), k", RATED)
    (estimate,) = estimate_flows(draft, NOTHING)
    assert estimate.sources["us"].rows_per_s == 100.0
    assert estimate.results is not None
    assert estimate.results.rows_per_s == pytest.approx(100 / 5)


@pytest.mark.parametrize(
    ("rest", "rows"),
    [
        ("", 100.0),
        ("HAVING count(*) > 5", 100 / 3),
        ("QUALIFY rank() OVER (PARTITION BY window ORDER BY count(*)) <= 5", 5.0),
        ("QUALIFY rank() OVER (PARTITION BY window, k ORDER BY count(*)) <= 5", 100.0),
    ],
)
def test_results_are_the_rows_of_a_window(rest: str, rows: float) -> None:
    draft = draft_of(f"SELECT k, count(*) AS n FROM s GROUP BY window(ts, '20 seconds'), k {rest}", RATED)
    results = estimate_flows(draft, NOTHING)[0].results
    assert results is not None
    assert results.rows_per_s == pytest.approx(rows / 20)
    assert results.bytes_per_s == pytest.approx(rows / 20 * 16)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(
            ("BOOLEAN", 1),
            ("SMALLINT", 2),
            ("INT", 4),
            ("DATE", 4),
            ("BIGINT", 8),
            ("TIMESTAMP", 8),
            ("DECIMAL(10,2)", 16),
        ),
        *(("STRING", 20), ("ARRAY<INT>", 40), ("STRUCT<start: TIMESTAMP, end: TIMESTAMP>", 16), ("", 8)),
    ],
)
def test_bytes_of_types(name: str, size: int) -> None:
    assert type_bytes(name) == size


def test_rows_of_joined_streams_leave_once() -> None:
    same = "window(a.ts, '10 seconds', '5 seconds') = window(b.ts, '10 seconds', '5 seconds')"
    draft = draft_of(f"SELECT a.k, b.v FROM s a JOIN s b ON a.k = b.k AND {same} AND b.v > 1", RATED)
    sent, result = columns("_window_start TIMESTAMP, _c0 INT"), columns("k INT, v DOUBLE")
    known = {"s1": sent, "s2": columns("_window_start TIMESTAMP, _c0 DOUBLE, _c1 INT"), "m1": result}
    (estimate,) = estimate_flows(with_columns(draft, known, result), NOTHING)
    assert estimate.sources["us"].rows_per_s == pytest.approx(500 * (1 + 1 / 3))
    assert estimate.sources["us"].bytes_per_s == pytest.approx(500 * (12 + 20 / 3))
    assert estimate.results is not None
    # As many as the larger stream has, in two windows each.
    assert estimate.results.rows_per_s == pytest.approx(2 * 1500)
    assert estimate.results.bytes_per_s == pytest.approx(2 * 1500 * 12)


def test_groups_of_joined_streams_are_those_of_a_window() -> None:
    same = "window(a.ts, '10 seconds') = window(b.ts, '10 seconds')"
    text = f"SELECT count(*) AS n FROM s a JOIN s b ON a.k = b.k AND {same} GROUP BY window(a.ts, '10 seconds'), a.k"
    (estimate,) = estimate_flows(draft_of(text, RATED), NOTHING)
    assert estimate.results is not None
    assert estimate.results.rows_per_s == pytest.approx(100 / 10)


def test_each_join_of_a_union_has_flows_of_its_own() -> None:
    same = "window(a.ts, '10 seconds') = window(b.ts, '10 seconds')"
    joined = f"FROM s a JOIN s b ON a.k = b.k AND {same}"
    text = f"SELECT a.k {joined} AND b.v > 1 UNION ALL SELECT k FROM s UNION ALL SELECT max(k) FROM (SELECT a.k, "
    text += f"window(a.ts, '10 seconds') AS w {joined} GROUP BY 1, 2) AS d GROUP BY w"
    join, plain, groups = estimate_flows(draft_of(text, RATED), NOTHING)
    assert (join.stage, plain.stage, groups.stage) == ("m1", "s3", "m2")
    assert join.sources["us"].rows_per_s == pytest.approx(500 * (1 + 1 / 3))
    assert plain.sources["us"].rows_per_s == 500.0
    assert join.results is not None
    assert groups.results is not None
    assert plain.results is None
    assert join.results.rows_per_s == pytest.approx(1500)
    assert groups.results.rows_per_s == pytest.approx(1 / 10)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM s WHERE v > 1",
        "SELECT k, count(*) AS n FROM s GROUP BY window(ts, '10 seconds'), k",
        "SELECT k, count(*) AS n FROM (SELECT ts, k FROM s UNION ALL SELECT ts, k FROM s WHERE v > 1) AS u "
        "GROUP BY window(ts, '10 seconds', '5 seconds'), k",
        "SELECT a.k FROM s AS a JOIN s AS b ON a.k = b.k AND window(a.ts, '10 seconds') = window(b.ts, '10 seconds')",
    ],
)
def test_rates_of_tasks_add_up_to_the_flows(sql: str) -> None:
    draft = draft_of(sql, RATED)
    (estimate,) = estimate_flows(draft, NOTHING)
    rates = task_rates(draft, NOTHING)
    for site, flow in estimate.sources.items():
        assert sum(rate for (_, at), rate in rates.items() if at == site) == pytest.approx(flow.bytes_per_s)
    merges = {stage: rate for (stage, at), rate in rates.items() if not at}
    assert merges == ({} if estimate.results is None else {"m1": estimate.results.bytes_per_s})
