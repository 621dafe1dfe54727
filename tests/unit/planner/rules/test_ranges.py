from __future__ import annotations

import pytest

from planner.graph.plan import Stage
from planner.planning.drafts import with_texts
from planner.rules.combines import with_combines
from planner.rules.ranges import with_ranges
from tests.unit.planner.build import draft_of
from tests.unit.planner.rules.test_parts import CATALOG, PER_PAGE, SAME, TOTAL, WINDOW

BIN = "pmod(xxhash64(_k0), 64) AS _bin"


def merge_of(sql: str, *, parts: int = 1, combine: bool = False) -> Stage:
    draft = draft_of(sql, CATALOG, parts=parts)
    draft = with_texts(with_ranges(with_combines(draft) if combine else draft))
    return draft.stage("m1")


def test_a_merge_of_groups_may_work_bin_by_bin_and_what_combines_its_partials_says_their_bins() -> None:
    merge = merge_of(PER_PAGE).merge

    assert merge is not None
    assert merge.by_bins
    assert BIN in merge.combine_sql


@pytest.mark.parametrize(
    "sql",
    [
        PER_PAGE.replace("count(*) AS n", "count(*) AS n, avg(v) AS m") + " HAVING n > 3",
        f"SELECT a.v FROM a JOIN b ON a.k = b.k AND {SAME}",
    ],
)
def test_so_may_groups_that_are_left_out_and_rows_that_match(sql: str) -> None:
    merge = merge_of(sql).merge

    assert merge is not None
    assert merge.by_bins


@pytest.mark.parametrize(
    "sql",
    [
        TOTAL,
        f"SELECT {WINDOW.replace('ts', 'a.ts')} AS w, count(*) AS n FROM a JOIN b ON a.k = b.k AND {SAME} GROUP BY 1",
        f"SELECT a.v FROM a JOIN b ON a.page = b.v AND {SAME}",
        f"SELECT {WINDOW} AS w, count(*) AS n FROM a GROUP BY 1",
    ],
)
def test_what_needs_the_groups_of_all_bins_stays_whole(sql: str) -> None:
    merge = merge_of(sql).merge

    assert merge is not None
    assert not merge.by_bins
    assert not merge.ranges
    assert "_bin" not in merge.combine_sql


@pytest.mark.parametrize(
    ("sql", "of_ranges", "over_ranges"),
    [
        (f"{PER_PAGE} QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 3", "_rank <= 3", "_rank <= 3"),
        (f"SELECT w, max(n) AS most FROM ({PER_PAGE}) GROUP BY w", "sum(_p0) AS _a0", "max(r1.n)"),
    ],
)
def test_of_what_needs_all_groups_each_range_gives_what_a_part_would(
    sql: str, of_ranges: str, over_ranges: str
) -> None:
    merge = merge_of(sql).merge

    assert merge is not None
    assert not merge.by_bins, "earlier agents would take the results of each range for results"
    assert [found.view for found in merge.ranges] == ["input"]
    assert of_ranges in merge.ranges[0].sql
    assert over_ranges in merge.over_ranges_sql
    assert BIN in merge.combine_sql


def test_aggregates_that_are_joined_give_their_groups_each() -> None:
    others = f"SELECT {WINDOW} AS w, page, count(*) AS m FROM b GROUP BY 1, 2"
    on = "x.w = y.w AND x.page = y.page"
    merge = merge_of(f"SELECT x.w, x.n, y.m FROM ({PER_PAGE}) x JOIN ({others}) y ON {on}").merge

    assert merge is not None
    assert [found.view for found in merge.ranges] == ["input", "t1_partials"]
    assert "JOIN" in merge.over_ranges_sql
    assert all(BIN in view.combine_sql for view in merge.views)


@pytest.mark.parametrize("parts", [1, 4])
def test_behind_combining_sites_it_says_the_bins_itself(parts: int) -> None:
    merge = merge_of(PER_PAGE, parts=parts, combine=True).merge

    assert merge is not None
    assert merge.by_bins
    assert BIN in merge.combine_sql
