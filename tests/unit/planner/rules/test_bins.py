from __future__ import annotations

from collections.abc import Mapping

from planner.graph.plan import DraftPlan
from planner.planning.drafts import with_columns, with_texts
from planner.rules.bins import with_checked_bins
from tests.unit.planner.build import columns, draft_of

GROUPED = "SELECT page, user_id, count(*) AS n FROM clicks GROUP BY page, user_id, window(ts, '10 seconds')"
RESULT = columns("page STRING, user_id BIGINT, n BIGINT")


def checked(types: Mapping[str, str]) -> DraftPlan:
    """The query in three parts, when Spark has found these types of the sources' columns."""
    draft = draft_of(GROUPED, parts=3)
    known = {stage: columns(found) for stage, found in types.items()}
    known["m1"] = RESULT
    return with_texts(with_checked_bins(with_columns(draft, known, RESULT)))


def source(page: str, user: str) -> str:
    return f"_window_start TIMESTAMP, _k0 {page}, _k1 {user}, _p0 BIGINT"


def test_keys_that_hash_alike_make_the_bin() -> None:
    draft = checked({"s1": source("STRING", "BIGINT")})
    assert "xxhash64(sort_array(array(xxhash64(_k0), xxhash64(_k1))))" in draft.stage("s1").sql
    assert draft.stage("m1").parts == 3


def test_texts_that_a_collation_takes_for_equal_do_not() -> None:
    draft = checked({"s1": source("STRING COLLATE UTF8_LCASE", "BIGINT")})
    assert "pmod(xxhash64(_k1), 64) AS _bin" in draft.stage("s1").sql
    assert draft.stage("m1").parts == 3


def test_without_keys_that_hash_alike_a_merge_has_one_task() -> None:
    draft = checked({"s1": source("ARRAY<STRING COLLATE UNICODE_CI>", "STRUCT<a: STRING COLLATE UTF8_LCASE_RTRIM>")})
    assert "_bin" not in draft.stage("s1").sql
    assert draft.stage("m1").parts == 1


def test_keys_of_other_types_at_another_source_do_not_make_the_bin() -> None:
    union = "(SELECT page, user_id, ts FROM clicks UNION ALL SELECT page, 1, ts FROM visits)"
    sql = f"SELECT page, user_id, count(*) AS n FROM {union} AS u GROUP BY page, user_id, window(ts, '10 seconds')"
    known = {
        "s1": columns(source("STRING", "BIGINT")),
        "s2": columns(source("STRING", "INT")),
        "m1": RESULT,
    }
    draft = with_texts(with_checked_bins(with_columns(draft_of(sql, parts=3), known, RESULT)))
    for stage in ("s1", "s2"):
        assert "pmod(xxhash64(_k0), 64) AS _bin" in draft.stage(stage).sql
