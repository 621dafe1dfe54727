from __future__ import annotations

import pytest

from planner.graph.plan import DraftPlan, Stage
from planner.planning.drafts import with_texts
from planner.rules.combines import with_combines
from planner.values.names import BINS
from planner.values.stages import StageKind
from tests.unit.planner.build import catalog_of, draft_of

CATALOG = catalog_of(
    """
    CREATE STREAM a (k INT, page STRING, price DECIMAL(8,2), v INT, ts TIMESTAMP, WATERMARK FOR ts)
      WITH ('connector' = 'other') AT us, AT eu;
    CREATE STREAM b (k BIGINT, page INT, price DECIMAL(10,4), v INT, ts TIMESTAMP,
      WATERMARK FOR ts) WITH ('connector' = 'other') AT us;
    CREATE TABLE t (k INT, name STRING) WITH ('connector' = 'other') AT us AT eu;
    """
)
WINDOW = "window(ts, '10 seconds')"
PER_PAGE = f"SELECT {WINDOW} AS w, page, count(*) AS n FROM a GROUP BY 1, page"
TOTAL = f"SELECT {WINDOW} AS w, count(*) AS n FROM a GROUP BY 1"
SAME = "window(a.ts, '10 seconds') = window(b.ts, '10 seconds')"


def split(sql: str, parts: int = 4) -> DraftPlan:
    return draft_of(sql, CATALOG, parts=parts)


def shape(draft: DraftPlan) -> list[tuple[str, str, int, list[str]]]:
    """Of each stage behind the sources: id, kind, tasks, inputs."""
    later = (stage for stage in draft.stages if stage.kind in (StageKind.MERGE, StageKind.FINAL))
    return [(s.id, s.kind.value, len(s.vertices), [i.stage for i in s.inputs]) for s in later]


def merge_of(draft: DraftPlan) -> Stage:
    return draft.stage("m1")


@pytest.mark.parametrize(
    "sql",
    [
        f"{PER_PAGE} HAVING count(*) > 1",
        f"SELECT page, n * 2 AS twice FROM ({PER_PAGE}) AS d WHERE n > 1",
        f"SELECT a.v, b.v AS x, t.name FROM a JOIN b ON a.k = b.k AND {SAME} LEFT JOIN t ON t.k = b.v",
        f"SELECT window(w.start, '1 minute') AS m, page, n FROM ({PER_PAGE}) AS d GROUP BY 1, page, n",
    ],
)
def test_parts_give_results_where_each_is_made_of_one_group(sql: str) -> None:
    draft = split(sql)
    wanted = [("m1", "merge", 4)]
    if "minute" in sql:
        wanted.append(("f1", "final", 1))
    assert [(name, kind, tasks) for name, kind, tasks, _ in shape(draft)] == wanted
    assert draft.result_stages == (wanted[-1][0],)


def test_a_top_k_is_taken_in_each_part_and_of_what_they_keep() -> None:
    draft = split(f"{PER_PAGE} HAVING count(*) > 1 QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 3")
    assert shape(draft) == [("m1", "merge", 4, ["s1"]), ("f1", "final", 1, ["m1"])]
    part, final = draft.stages[-2:]
    assert part.sql.count("_rank <= 3") == final.sql.count("_rank <= 3") == 1
    assert "_a0 > 1" in part.sql
    assert "_a0 > 1" not in final.sql
    assert draft.result_stage == "f1"
    assert final.merge is not None
    assert [(v.view, v.combine_sql, v.required) for v in final.merge.views] == [("input", "", True)]


def test_each_query_of_a_join_of_aggregates_has_parts_by_its_own_keys() -> None:
    joined = f"""SELECT x.page, x.n, y.v FROM ({PER_PAGE}) AS x
        LEFT JOIN (SELECT {WINDOW} AS w, v, count(*) AS n FROM a GROUP BY 1, v) AS y ON x.w = y.w AND x.n = y.n"""
    draft = split(joined)
    assert shape(draft) == [("m1", "merge", 4, ["s1"]), ("m2", "merge", 4, ["s2"]), ("f1", "final", 1, ["m1", "m2"])]
    final = draft.stage("f1")
    assert final.merge is not None
    assert [view.required for view in final.merge.views] == [True, False]


def test_what_has_no_keys_has_one_task() -> None:
    draft = split(TOTAL)
    assert draft.stages == draft_of(TOTAL, CATALOG).stages
    assert draft.notes[-1] == "m1: one task, for its groups have no keys"
    draft = split(f"SELECT x.page, x.n / y.n AS share FROM ({PER_PAGE}) AS x JOIN ({TOTAL}) AS y ON x.w = y.w")
    assert [(name, tasks) for name, _, tasks, _ in shape(draft)] == [("m1", 4), ("m2", 1), ("f1", 1)]
    assert draft.notes[-1] == "m2: one task, for its groups have no keys"


def test_aggregates_of_joined_rows_are_made_of_partials() -> None:
    draft = split(
        f"SELECT a.v, avg(b.v) AS m FROM a JOIN b ON a.k = b.k AND {SAME} GROUP BY window(a.ts, '10 seconds'), a.v"
    )
    assert shape(draft) == [("m1", "merge", 4, ["s1", "s2"]), ("f1", "final", 1, ["m1"])]
    assert "count(_c0) AS _p1" in merge_of(draft).sql
    final = draft.stage("f1")
    assert "try_divide(sum(_p0), sum(_p1)) AS _a0" in final.sql
    assert final.merge is not None
    assert final.merge.views[0].combine_sql.startswith("SELECT _window_start, _k0, sum(_p0) AS _p0")


def test_branches_of_a_union_that_are_joined_send_partials() -> None:
    pairs = f"SELECT a.ts, a.k FROM a JOIN b ON a.k = b.k AND {SAME}"
    draft = split(f"SELECT k, count(*) AS n FROM (SELECT ts, k FROM a UNION ALL {pairs}) AS u GROUP BY {WINDOW}, k")
    assert shape(draft) == [("m1", "merge", 4, ["s1", "s2", "s3"]), ("f1", "final", 1, ["m1"])]
    assert merge_of(draft).sql.startswith("SELECT _window_start, _k0, sum(_p0) AS _p0")


def test_each_branch_of_a_union_has_a_merge_of_its_own() -> None:
    top = f"{PER_PAGE} QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 3"
    draft = split(f"{top} UNION ALL {PER_PAGE} UNION ALL SELECT NULL, page, 1L FROM a")
    assert [(name, tasks) for name, _, tasks, _ in shape(draft)] == [("m1", 4), ("f1", 1), ("m2", 4)]
    assert draft.result_stages == ("f1", "m2", "s3")


@pytest.mark.parametrize(
    ("on", "bins"),
    [
        ("a.v = b.v", ("input.v", "input.v")),
        ("a.k = b.k", ("CAST(input.k AS BIGINT)", "input.k")),
        ("a.price = b.price", ("CAST(input.price AS DECIMAL(10,4))", "input.price")),
        ("a.v = b.v AND a.page = b.page", ("input.v", "input.v")),
        ("a.v <=> b.v AND a.k + 1 = b.k", ("input.v", "input.v")),
    ],
)
def test_both_sides_of_a_join_are_binned_in_one_type(on: str, bins: tuple[str, str]) -> None:
    draft = split(f"SELECT a.v FROM a JOIN b ON {on} AND {SAME}")
    for stage, key in zip(("s1", "s2"), bins, strict=True):
        assert draft.stage(stage).sql.split("FROM")[0].strip().endswith(f"pmod(xxhash64({key}), 64) AS _bin"), stage
    assert merge_of(draft).parts == 4


@pytest.mark.parametrize("on", ["a.page = b.page", "a.v = b.k + 1", "a.price = b.k"])
def test_rows_that_match_by_no_columns_of_one_type_are_joined_by_one_task(on: str) -> None:
    draft = split(f"SELECT a.v FROM a JOIN b ON {on} AND {SAME}")
    assert "_bin" not in "".join(stage.sql for stage in draft.stages)
    assert merge_of(draft).parts == 1
    assert draft.notes[-1] == "m1: one task, for no columns of one type say which of its rows match"


@pytest.mark.parametrize(("on", "parts"), [("c.k = a.k", 4), ("c.k = b.k", 4), ("c.v = a.v", 1)])
def test_three_streams_have_bins_where_all_match_by_the_same(on: str, parts: int) -> None:
    again = "window(a.ts, '10 seconds') = window(c.ts, '10 seconds')"
    draft = split(f"SELECT a.v FROM a JOIN b ON a.k = b.k AND {SAME} LEFT JOIN a AS c ON {on} AND {again}")
    assert merge_of(draft).parts == parts


def test_combined_partials_keep_the_bins_that_parts_read() -> None:
    draft = with_texts(with_combines(split(PER_PAGE)))
    assert [(s.id, len(s.vertices)) for s in draft.stages] == [("s1", 2), ("c1", 2), ("m1", 4)]
    assert draft.stage("c1").sql.endswith(
        "pmod(xxhash64(_k0), 64) AS _bin, xxhash64(_window_start, _k0) AS _group FROM input GROUP BY _window_start, _k0"
    )


@pytest.mark.parametrize("parts", [2, 3, 7, BINS])
def test_each_bin_is_in_one_part(parts: int) -> None:
    merge = merge_of(split(PER_PAGE, parts))
    ranges = [merge.bins(vertex.partition) for vertex in merge.vertices]
    assert [number for bins in ranges for number in bins or ()] == list(range(BINS))
    assert max(len(bins or ()) for bins in ranges) - min(len(bins or ()) for bins in ranges) <= 1


def test_parts_put_panes_together_and_a_final_gets_windows() -> None:
    sliding = PER_PAGE.replace("'10 seconds')", "'10 seconds', '5 seconds')")
    draft = split(f"{sliding} QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 3")
    part, final = draft.stage("m1").merge, draft.stage("f1").merge
    assert part is not None
    assert final is not None
    assert (part.panes, final.panes) == (True, False)
    assert (part.window, part.period) == (final.window, final.period)
