from __future__ import annotations

import pytest

from planner.merge import Merged, MergeRecipe, Partial

RECIPE = MergeRecipe(
    keys=("_k0",),
    partials=(Partial("_p0", "sum"), Partial("_p1", "sum"), Partial("_p2", "max")),
    aggregates=(Merged("_a0", ("_p0", "_p1")), Merged("_a1", ("_p2",))),
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
