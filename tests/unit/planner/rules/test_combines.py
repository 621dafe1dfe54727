from __future__ import annotations

import pytest

from planner.estimate.rates import estimate_flows, task_rates
from planner.graph.plan import DraftPlan, Statistics
from planner.planning.drafts import with_texts
from planner.rules.combines import with_combines
from planner.values.stages import StageKind
from planner.values.trees import Tree
from tests.unit.planner.build import catalog_of, draft_of

CATALOG = catalog_of(
    """
    CREATE STREAM clicks (page STRING, ms BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2 seconds')
      WITH ('connector' = 'generator', 'rows_per_second' = '1000') AT us, AT eu;
    CREATE STREAM views (page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts)
      WITH ('connector' = 'generator', 'rows_per_second' = '10') AT us;
    """
)
COUNTED = "SELECT page, count(*) AS n, avg(ms) AS mean FROM clicks GROUP BY page, window(ts, '1 minute')"


def combined(sql: str) -> DraftPlan:
    return with_texts(with_combines(draft_of(sql, CATALOG)))


def test_each_site_of_a_source_combines_what_its_merge_reads() -> None:
    plan = combined(COUNTED)
    source, combine, merge = plan.stages
    assert [(s.id, s.kind) for s in plan.stages] == [
        ("s1", StageKind.SOURCE),
        ("c1", StageKind.COMBINE),
        ("m1", StageKind.MERGE),
    ]
    assert combine.pinned == source.pinned == ("eu", "us")
    assert [(i.stage, i.view, i.same_site) for i in combine.inputs] == [("s1", "input", True)]
    assert [(i.stage, i.view, i.same_site) for i in merge.inputs] == [("c1", "input", False)]
    assert combine.columns == source.columns
    assert combine.merge is not None
    assert merge.merge is not None
    assert (combine.merge.window, combine.merge.combine_sql) == (merge.merge.window, merge.merge.combine_sql)


def test_combined_groups_have_a_number_and_no_bins() -> None:
    """The number is of the window and all keys, and not a column of the output; rows without bins sort by key."""
    _, combine, _ = combined(COUNTED).stages
    assert combine.sql.startswith("SELECT _window_start, _k0, ")
    assert "xxhash64(_window_start, _k0) AS _group" in combine.sql
    assert "_bin" not in combine.sql
    _, without_keys, _ = combined("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '1 minute')").stages
    assert "xxhash64(_window_start) AS _group" in without_keys.sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT page FROM clicks WHERE ms > 5",
        "SELECT c.page, v.ts FROM clicks c JOIN views v "
        "ON c.page = v.page AND window(c.ts, '10 seconds') = window(v.ts, '10 seconds')",
    ],
)
def test_sources_that_send_rows_have_none(sql: str) -> None:
    draft = draft_of(sql, CATALOG)
    assert with_combines(draft) == draft


def test_each_branch_of_a_union_has_one() -> None:
    sql = (
        "SELECT page, count(*) AS n FROM (SELECT page, ts FROM clicks UNION ALL SELECT page, ts FROM views) "
        "GROUP BY page, window(ts, '10 seconds')"
    )
    plan = combined(sql)
    assert [s.id for s in plan.stages if s.kind is StageKind.COMBINE] == ["c1", "c2"]
    merge = plan.stage(plan.result_stage)
    assert [i.stage for i in merge.inputs] == ["c1", "c2"]


def test_a_group_is_expected_once_for_a_window_not_for_an_epoch() -> None:
    draft = draft_of(COUNTED, CATALOG)
    (sent,), (less,) = (estimate_flows(plan, Statistics()) for plan in (draft, with_combines(draft)))
    assert sent.sources["us"].rows_per_s == 100
    assert less.sources["us"].rows_per_s == pytest.approx(100 / 60)
    assert less.results == sent.results
    rates = task_rates(with_combines(draft), Statistics())
    assert rates["s1", "us"] == task_rates(draft, Statistics())["s1", "us"]
    assert rates["c1", "us"] == pytest.approx(rates["s1", "us"] / 60)


def stages_of(plan: DraftPlan) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """The COMBINEs and the MERGE, with their sites and what they read; what is at the same site in brackets."""
    return [
        (s.id, s.pinned, [f"({i.stage})" if i.same_site else i.stage for i in s.inputs])
        for s in plan.stages
        if s.kind is not StageKind.SOURCE
    ]


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("off", [("c1", ("eu", "us"), ["(s1)"]), ("m1", (), ["c1"])]),
        ("eu > us", [("c1", ("eu",), ["(s1)"]), ("c2", ("us",), ["(s1)", "c1"]), ("m1", (), ["c2"])]),
        (
            "eu > asia",
            [("c1", ("us",), ["(s1)"]), ("c2", ("eu",), ["(s1)"]), ("c3", ("asia",), ["c2"]), ("m1", (), ["c1", "c3"])],
        ),
        (
            "eu > us > asia",
            [
                ("c1", ("eu",), ["(s1)"]),
                ("c2", ("us",), ["(s1)", "c1"]),
                ("c3", ("asia",), ["c2"]),
                ("m1", (), ["c3"]),
            ],
        ),
        ("africa > asia", [("c1", ("eu", "us"), ["(s1)"]), ("m1", (), ["c1"])]),
    ],
)
def test_in_a_tree_a_site_between_combines_what_others_send(way: str, expected: object) -> None:
    plan = with_texts(with_combines(draft_of(COUNTED, CATALOG), Tree.parsed(way)))
    assert stages_of(plan) == expected
    assert len({stage.sql for stage in plan.stages if stage.kind is StageKind.COMBINE}) == 1


def test_only_what_parts_of_a_merge_read_has_bins() -> None:
    draft = with_texts(with_combines(draft_of(COUNTED, CATALOG, parts=2), Tree.parsed("eu > us")))
    assert ["_bin" in stage.sql for stage in draft.stages if stage.kind is StageKind.COMBINE] == [False, True]


def test_a_site_between_sends_the_groups_of_all_sites_once() -> None:
    draft = draft_of(COUNTED, CATALOG)
    tree = with_combines(draft, Tree.parsed("eu > us"))
    (flat,), (found,) = (estimate_flows(plan, Statistics()) for plan in (with_combines(draft), tree))
    assert found.sources == {"us": flat.sources["us"]}
    assert found.between == {("eu", "us"): flat.sources["eu"]}
    assert found.results == flat.results
    assert {site for stage, site in task_rates(tree, Statistics()) if stage.startswith("c")} == {"eu", "us"}
    many = draft_of("SELECT page, ms, count(*) AS n FROM clicks GROUP BY page, ms, window(ts, '1 second')", CATALOG)
    (found,) = estimate_flows(with_combines(many, Tree.parsed("eu > us")), Statistics())
    assert found.sources["us"].rows_per_s == 2000, "fewer groups than there might be: those of both sites"
