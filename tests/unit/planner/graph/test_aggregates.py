"""Partials merged to aggregates: the SQL that is written of them, for each type that Spark may find."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from planner.functions.aggregates import MERGEABLE, MERGES, aggregate_of
from planner.graph.aggregates import Call, split_call
from planner.graph.operators import CombinePartials, MergeAggregate, Merged, Partial, Scan
from planner.relations.catalog import Column
from planner.sql.dialect import exp
from planner.text.spark import spark_sql

GROUPS = ("_window_start", "_k0")
AVERAGE = (Partial("_p0", "sum"), Partial("_p1", "sum"), Partial("_p2", "max"))
OF_AVERAGE = (Merged("_a0", "avg", ("_p0", "_p1")), Merged("_a1", "max", ("_p2",)))


def merged(partials: tuple[Partial, ...], aggregates: tuple[Merged, ...], types: Mapping[str, str]) -> str:
    return spark_sql(MergeAggregate(scan(types), GROUPS, partials, aggregates))


def combined(partials: tuple[Partial, ...], types: Mapping[str, str]) -> str:
    return spark_sql(CombinePartials(scan(types), GROUPS, partials))


def scan(types: Mapping[str, str]) -> Scan:
    return Scan("input", tuple(Column(name, type_) for name, type_ in types.items()))


def test_integers_and_floats_need_no_cast() -> None:
    types = {"_p0": "BIGINT", "_p1": "BIGINT", "_p2": "DECIMAL(10,2)"}
    assert (
        merged(AVERAGE, OF_AVERAGE, types)
        == merged(AVERAGE, OF_AVERAGE, {})
        == (
            "SELECT _window_start, _k0, try_divide(sum(_p0), sum(_p1)) AS _a0, max(_p2) AS _a1 "
            "FROM input GROUP BY _window_start, _k0"
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
    sql = merged(AVERAGE, OF_AVERAGE, types)
    assert f"CAST(try_divide(CAST(sum(_p0) AS {total}), sum(_p1)) AS {average}) AS _a0" in sql
    assert combined(AVERAGE, types) == (
        f"SELECT _window_start, _k0, CAST(sum(_p0) AS {total}) AS _p0, sum(_p1) AS _p1, max(_p2) AS _p2 "
        "FROM input GROUP BY _window_start, _k0"
    )


def test_variances_are_merged_around_the_mean_of_all() -> None:
    partials = (Partial("_p0", "sum"), Partial("_p1", "mean", ("_p0",)), Partial("_p2", "m2", ("_p0", "_p1")))
    parts = ("_p0", "_p1", "_p2")
    aggregates = (Merged("_a0", "stddev_samp", parts), Merged("_a1", "var_pop", parts))
    over = "OVER (PARTITION BY _window_start, _k0)"
    mean = f"try_divide(sum(_p0 * _p1) {over}, sum(_p0) {over})"
    mean = f"least(greatest({mean}, min(_p1) {over}), max(_p1) {over})"
    source = f"(SELECT *, {mean} AS _p1_of_all FROM input) AS input"
    m2 = "sum(_p2 + _p0 * (_p1 - _p1_of_all) * (_p1 - _p1_of_all))"
    assert combined(partials, {}) == (
        f"SELECT _window_start, _k0, sum(_p0) AS _p0, max(_p1_of_all) AS _p1, {m2} AS _p2 FROM {source} "
        "GROUP BY _window_start, _k0"
    )
    assert merged(partials, aggregates, {}) == (
        f"SELECT _window_start, _k0, sqrt(try_divide({m2}, sum(_p0) - 1)) AS _a0, "
        f"try_divide({m2}, sum(_p0)) AS _a1 FROM {source} GROUP BY _window_start, _k0"
    )


def test_texts_that_are_the_same_number_are_one_value() -> None:
    sql = merged((Partial("_p0", "set"),), (Merged("_a0", "sum DISTINCT", ("_p0",)),), {"_p0": "ARRAY<STRING>"})
    union = "array_distinct(flatten(collect_list(_p0)))"
    numbers = f"array_distinct(TRANSFORM({union}, x -> CAST(x AS DOUBLE)))"
    assert f"aggregate({numbers}, CAST(0 AS DOUBLE)" in sql


@pytest.mark.parametrize(
    ("values", "total", "average"),
    [
        ("ARRAY<INT>", "BIGINT", "{}"),
        ("ARRAY<DOUBLE>", "DOUBLE", "{}"),
        ("ARRAY<DECIMAL(10,2)>", "DECIMAL(20,2)", "CAST({} AS DECIMAL(14,6))"),
    ],
)
def test_sums_of_distinct_values_have_the_types_of_sums(values: str, total: str, average: str) -> None:
    partials = (Partial("_p0", "set"),)
    names = ("count DISTINCT", "sum DISTINCT", "avg DISTINCT")
    aggregates = tuple(Merged(f"_a{number}", name, ("_p0",)) for number, name in enumerate(names))
    union = "array_distinct(flatten(collect_list(_p0)))"
    added = f"aggregate({union}, CAST(0 AS {total}), (x, y) -> CAST(x + y AS {total}))"
    mean = average.format(f"try_divide({added}, size({union}))")
    assert merged(partials, aggregates, {"_p0": values}) == (
        f"SELECT _window_start, _k0, CAST(size({union}) AS BIGINT) AS _a0, "
        f"CASE WHEN size({union}) > 0 THEN {added} END AS _a1, {mean} AS _a2 FROM input "
        "GROUP BY _window_start, _k0"
    )
    assert combined(partials, {}) == f"SELECT _window_start, _k0, {union} AS _p0 FROM input GROUP BY _window_start, _k0"


@pytest.mark.parametrize("name", MERGEABLE)
def test_every_entry_can_be_split_and_merged(name: str) -> None:
    entry = aggregate_of(name)
    arguments = [exp.Literal.number("0.5") if place == entry.rank else column for place, column in enumerate(COLUMNS)]
    split = split_call(Call(name, tuple(arguments[: entry.arguments[0]]), exp.Boolean(this=True)))
    partials = tuple(
        Partial(f"_p{place}", part.merge, tuple(f"_p{other}" for other in part.of))
        for place, part in enumerate(split.parts)
    )
    assert all(partial.part in MERGES for partial in partials)
    assert all("FILTER" in call.sql() for call in split.calls)
    aggregate = Merged("_a0", split.function, tuple(partial.name for partial in partials), split.argument)
    assert merged(partials, (aggregate,), {}).count("AS _a0") == 1


COLUMNS = [exp.column(name) for name in "xyz"]
