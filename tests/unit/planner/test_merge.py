from __future__ import annotations

import pytest

from planner.merge import Merged, MergeRecipe, Partial

RECIPE = MergeRecipe(
    keys=("_k0",),
    partials=(Partial("_p0", "sum"), Partial("_p1", "sum"), Partial("_p2", "max")),
    aggregates=(Merged("_a0", ("_p0", "_p1"), "avg"), Merged("_a1", ("_p2",))),
    head="SELECT _a0",
    tail=" WHERE _a1",
)


def test_integers_and_floats_need_no_cast() -> None:
    types = {"_p0": "BIGINT", "_p1": "BIGINT", "_p2": "DECIMAL(10,2)"}
    assert (
        RECIPE.sql(types)
        == RECIPE.sql({})
        == (
            "SELECT _a0 FROM (SELECT _window_start, _k0, try_divide(sum(_p0), sum(_p1)) AS _a0, max(_p2) AS _a1 "
            "FROM input GROUP BY _window_start, _k0) AS merged WHERE _a1"
        )
    )


@pytest.mark.parametrize(
    ("total", "average"),
    [
        ("DECIMAL(20,2)", "DECIMAL(14,6)"),
        ("DECIMAL(20, 2)", "DECIMAL(14,6)"),
        ("DECIMAL(37,10)", "DECIMAL(31,14)"),
        ("DECIMAL(38,2)", "DECIMAL(38,6)"),
        ("DECIMAL(38,36)", "DECIMAL(38,38)"),
    ],
)
def test_decimals_keep_the_type_of_their_partials(total: str, average: str) -> None:
    types = {"_p0": total, "_p1": "BIGINT"}
    assert f"CAST(try_divide(CAST(sum(_p0) AS {total}), sum(_p1)) AS {average}) AS _a0" in RECIPE.sql(types)
    assert RECIPE.combine_sql(types) == (
        f"SELECT _window_start, _k0, CAST(sum(_p0) AS {total}) AS _p0, sum(_p1) AS _p1, max(_p2) AS _p2 "
        "FROM input GROUP BY _window_start, _k0"
    )


def test_variances_are_merged_around_the_mean_of_all() -> None:
    recipe = MergeRecipe(
        keys=("_k0",),
        partials=(Partial("_p0", "sum"), Partial("_p1", "mean", ("_p0",)), Partial("_p2", "m2", ("_p0", "_p1"))),
        aggregates=(
            Merged("_a0", ("_p0", "_p1", "_p2"), "stddev_samp"),
            Merged("_a1", ("_p0", "_p1", "_p2"), "var_pop"),
        ),
        head="SELECT _a0",
        tail="",
    )
    over = "OVER (PARTITION BY _window_start, _k0)"
    source = f"(SELECT *, try_divide(sum(_p0 * _p1) {over}, sum(_p0) {over}) AS _p1_of_all FROM input) AS input"
    m2 = "sum(_p2 + _p0 * (_p1 - _p1_of_all) * (_p1 - _p1_of_all))"
    assert recipe.combine_sql({}) == (
        f"SELECT _window_start, _k0, sum(_p0) AS _p0, max(_p1_of_all) AS _p1, {m2} AS _p2 FROM {source} "
        "GROUP BY _window_start, _k0"
    )
    assert recipe.sql({}) == (
        f"SELECT _a0 FROM (SELECT _window_start, _k0, sqrt(try_divide({m2}, sum(_p0) - 1)) AS _a0, "
        f"try_divide({m2}, sum(_p0)) AS _a1 FROM {source} GROUP BY _window_start, _k0) AS merged"
    )


def test_texts_that_are_the_same_number_are_one_value() -> None:
    aggregates = (Merged("_a0", ("_p0",), "sum_distinct"),)
    recipe = MergeRecipe(keys=(), partials=(Partial("_p0", "set"),), aggregates=aggregates, head="SELECT _a0", tail="")
    union = "array_distinct(flatten(collect_list(_p0)))"
    numbers = f"array_distinct(transform({union}, x -> CAST(x AS DOUBLE)))"
    assert f"aggregate({numbers}, CAST(0 AS DOUBLE)" in recipe.sql({"_p0": "ARRAY<STRING>"})


@pytest.mark.parametrize(
    ("values", "total", "average"),
    [
        ("ARRAY<INT>", "BIGINT", "{}"),
        ("ARRAY<DOUBLE>", "DOUBLE", "{}"),
        ("ARRAY<DECIMAL(10,2)>", "DECIMAL(20,2)", "CAST({} AS DECIMAL(14,6))"),
    ],
)
def test_sums_of_distinct_values_have_the_types_of_sums(values: str, total: str, average: str) -> None:
    recipe = MergeRecipe(
        keys=(),
        partials=(Partial("_p0", "set"),),
        aggregates=(
            Merged("_a0", ("_p0",), "count_distinct"),
            Merged("_a1", ("_p0",), "sum_distinct"),
            Merged("_a2", ("_p0",), "avg_distinct"),
        ),
        head="SELECT _a0",
        tail="",
    )
    union = "array_distinct(flatten(collect_list(_p0)))"
    added = f"aggregate({union}, CAST(0 AS {total}), (x, y) -> CAST(x + y AS {total}))"
    mean = average.format(f"try_divide({added}, size({union}))")
    assert recipe.sql({"_p0": values}) == (
        f"SELECT _a0 FROM (SELECT _window_start, CAST(size({union}) AS BIGINT) AS _a0, "
        f"CASE WHEN size({union}) > 0 THEN {added} END AS _a1, {mean} AS _a2 FROM input "
        "GROUP BY _window_start) AS merged"
    )
    assert recipe.combine_sql({}) == f"SELECT _window_start, {union} AS _p0 FROM input GROUP BY _window_start"
