"""Values that fulfil conditions: found where they are near constants, and true for another engine."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from itertools import pairwise

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.graph.expressions import cast
from planner.rules.pushed import pushed
from planner.rules.witness import Value, columns_in, witness
from planner.sql.dialect import exp
from planner.values.scans import SparkExpression as Spark
from tests.unit.planner.rules.test_pushed import call, column, literal

TYPES = {"n": "INT", "m": "INT", "day": "DATE", "until": "DATE", "s": "STRING", "x": "DECIMAL(5,2)", "f": "BOOLEAN"}
N, M, DAY, UNTIL, S, X, F = (column(name, kind) for name, kind in TYPES.items())


def day(text: str) -> Spark:
    return literal(text, "DATE")


def text(value: str) -> Spark:
    return literal(value, "STRING")


@pytest.mark.parametrize(
    ("conditions", "types", "values"),
    [
        ((), {}, {}),
        ((call("IsNotNull", N),), {"n": "INT"}, {"n": -1}),
        ((call("GreaterThan", N, literal("7")),), {"n": "INT"}, {"n": 8}),
        ((call("LessThan", N, literal("-2147483648")),), {"n": "INT"}, {}),
        ((call("IsNull", N),), {"n": "INT"}, {"n": None}),
        (
            (
                call("GreaterThanOrEqual", DAY, day("1994-01-01")),
                call("LessThan", DAY, day("1994-01-02")),
            ),
            {"day": "DATE"},
            {"day": date(1994, 1, 1)},
        ),
        (
            (call("LessThan", DAY, UNTIL), call("GreaterThan", DAY, day("1994-01-01"))),
            {"day": "DATE", "until": "DATE"},
            {"day": date(1994, 1, 2), "until": date(1994, 1, 3)},
        ),
        ((call("Like", S, text("%gr_en%"), text="\\"),), {"s": "STRING"}, {"s": "%gr_en%"}),
        ((call("In", call("Substring", S, literal("1"), literal("2")), text("13")),), {"s": "STRING"}, {"s": "13"}),
        ((call("GreaterThan", X, literal("999.98", "DECIMAL(5,2)")),), {"x": "DECIMAL(5,2)"}, {"x": Decimal("999.99")}),
        ((call("GreaterThan", X, literal("999.99", "DECIMAL(5,2)")),), {"x": "DECIMAL(5,2)"}, {}),
        ((F, call("Not", call("IsNull", F))), {"f": "BOOLEAN"}, {"f": True}),
    ],
)
def test_values_are_found_next_to_constants(
    conditions: tuple[Spark, ...], types: dict[str, str], values: dict[str, Value]
) -> None:
    assert witness(conditions, types) == values


@pytest.mark.parametrize(
    "condition",
    [
        call("EqualTo", call("Add", N, literal("1"), type_="INT"), literal("3")),
        call("Like", S, text("a\\%"), text="\\"),
        call("EqualTo", column("s", "STRING COLLATE UTF8_LCASE"), text("a")),
        call("EqualTo", column("d", "DOUBLE"), literal("1.0", "DOUBLE")),
        call("EqualTo", call("Cast", S, type_="INT"), literal("1")),
    ],
)
def test_where_it_is_not_known_what_spark_gives_there_are_none(condition: Spark) -> None:
    types = {**TYPES, "d": "DOUBLE", "f": "BOOLEAN"}
    read = set(columns_in(condition))
    other = call("IsNotNull", F)
    assert witness([condition, other], {name: types[name] for name in (*read, "f")}) == {"f": True}


def test_the_search_ends() -> None:
    """No two of so many columns may be equal, and none is near enough to the constants."""
    names = [f"c{n}" for n in range(9)]
    columns = [column(name) for name in names]
    apart = [call("LessThan", a, b) for a, b in pairwise(columns)]
    assert witness([*apart, call("LessThan", columns[-1], columns[0])], dict.fromkeys(names, "INT")) == {}


NUMBERS = st.one_of(st.just(N), st.just(M), st.integers(-3, 3).map(lambda n: literal(str(n))))
DAYS = st.one_of(st.just(DAY), st.just(UNTIL), st.sampled_from([day("2024-02-28"), day("2024-03-01")]))
TEXTS = st.one_of(st.just(S), st.sampled_from([text(""), text("a"), text("ab"), text("%b_"), literal(None, "STRING")]))
AMOUNTS = st.one_of(st.just(X), st.sampled_from([literal("0.00", "DECIMAL(5,2)"), literal("-1.25", "DECIMAL(5,2)")]))
COMPARISONS = st.sampled_from(
    ["EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"]
)
SIDES = st.sampled_from([NUMBERS, DAYS, TEXTS, AMOUNTS]).flatmap(lambda side: st.tuples(side, side))
ATOMS = st.one_of(
    st.just(F),
    st.builds(lambda kind, sides: call(kind, *sides), COMPARISONS, SIDES),
    st.builds(
        lambda value, kind: call(kind, value),
        st.sampled_from([N, S, DAY, X, F]),
        st.sampled_from(["IsNull", "IsNotNull"]),
    ),
    st.builds(lambda parts: call("In", *parts), st.lists(TEXTS, min_size=2, max_size=4)),
    st.builds(lambda pattern: call("Like", S, text(pattern), text="\\"), st.sampled_from(["a%", "%b_", "_", ""])),
    st.builds(lambda kind, part: call(kind, S, part), st.sampled_from(["StartsWith", "EndsWith", "Contains"]), TEXTS),
    st.builds(
        lambda n: call("EqualTo", call("Substring", S, literal("1"), literal(str(n))), text("a")), st.integers(0, 2)
    ),
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(lambda a: call("Not", a), inner),
        st.builds(lambda kind, a, b: call(kind, a, b), st.sampled_from(["And", "Or"]), inner, inner),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def db() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("CREATE MACRO startswith(a, b) AS starts_with(a, b); CREATE MACRO endswith(a, b) AS ends_with(a, b)")
    return made


@given(st.lists(CONDITIONS, max_size=3))
def test_another_engine_finds_the_conditions_true(db: duckdb.DuckDBPyConnection, conditions: list[Spark]) -> None:
    values = witness(conditions, TYPES)
    if not values:
        return
    row = ", ".join(
        cast(exp.Null() if value is None else exp.Literal.string(str(value)), TYPES[name]).sql("duckdb") + f" AS {name}"
        for name, value in values.items()
    )
    for condition in conditions:
        read = set(columns_in(condition))
        if not read or not read <= values.keys():
            continue
        question = f"SELECT {pushed(condition).sql('duckdb')} FROM (SELECT {row}) AS input"
        assert db.execute(question).fetchall() == [(True,)], question
