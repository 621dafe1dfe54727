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
        f"{PER_PAGE} QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 3",
        f"SELECT w, max(n) AS most FROM ({PER_PAGE}) GROUP BY w",
        f"SELECT a.v FROM a JOIN b ON a.page = b.v AND {SAME}",
        f"SELECT {WINDOW} AS w, count(*) AS n FROM a GROUP BY 1",
    ],
)
def test_what_needs_the_groups_of_all_bins_stays_whole(sql: str) -> None:
    merge = merge_of(sql).merge

    assert merge is not None
    assert not merge.by_bins
    assert "_bin" not in merge.combine_sql


@pytest.mark.parametrize(("parts", "by_bins"), [(1, False), (4, True)])
def test_behind_combining_sites_it_depends_on_whether_they_send_bins(parts: int, *, by_bins: bool) -> None:
    merge = merge_of(PER_PAGE, parts=parts, combine=True).merge

    assert merge is not None
    assert merge.by_bins is by_bins
    assert (BIN in merge.combine_sql) is by_bins
