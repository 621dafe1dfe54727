"""Which conditions of scans are evaluated at the sites of a table, and as what."""

from __future__ import annotations

import pytest

from planner.rules.pushed import NotPushedError, pushed
from planner.sql.dialect import render
from planner.values.scans import SparkExpression as Spark


def column(name: str, type_: str = "INT") -> Spark:
    return Spark("AttributeReference", type_, name)


def literal(text: str | None, type_: str = "INT") -> Spark:
    return Spark("Literal", type_, text)


def call(kind: str, *arguments: Spark, type_: str = "BOOLEAN", text: str | None = None) -> Spark:
    return Spark(kind, type_, text, arguments)


A, S = column("a"), column("s", "STRING")


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        (call("EqualTo", A, literal("1")), "input.a = 1"),
        (call("LessThan", column("odd name"), literal("-1")), "input.`odd name` < CAST('-1' AS INT)"),
        (call("EqualNullSafe", A, literal(None)), "input.a IS NOT DISTINCT FROM CAST(NULL AS INT)"),
        (call("IsNotNull", A), "NOT input.a IS NULL"),
        (
            call("In", S, literal("it's", "STRING"), literal(None, "STRING")),
            "input.s IN ('it\\'s', CAST(NULL AS STRING))",
        ),
        (call("GreaterThanOrEqual", A, literal("5", "BIGINT")), "input.a >= CAST('5' AS BIGINT)"),
        (call("LessThan", column("d", "DATE"), literal("2026-01-01", "DATE")), "input.d < CAST('2026-01-01' AS DATE)"),
        (call("Not", call("Or", call("IsNull", A), column("f", "BOOLEAN"))), "NOT ((input.a IS NULL) OR input.f)"),
        (call("Like", S, literal("%x_", "STRING"), text="\\"), "input.s LIKE '%x_'"),
        (call("StartsWith", S, literal("x", "STRING")), "startswith(input.s, 'x')"),
        (
            call("EqualTo", call("Cast", A, type_="BIGINT"), column("b", "BIGINT")),
            "CAST(input.a AS BIGINT) = input.b",
        ),
        (
            call("CaseWhen", call("IsNull", A), literal("true", "BOOLEAN"), literal("false", "BOOLEAN")),
            "CASE WHEN input.a IS NULL THEN CAST('true' AS BOOLEAN) ELSE CAST('false' AS BOOLEAN) END",
        ),
    ],
)
def test_what_is_safe(condition: Spark, sql: str) -> None:
    assert render(pushed(condition)) == sql


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (call("GreaterThan", call("Add", A, literal("1"), type_="INT"), literal("3")), "its arithmetic may overflow"),
        (call("GreaterThan", call("Divide", A, A, type_="DOUBLE"), literal("3", "DOUBLE")), "its divisor may be 0"),
        (call("EqualTo", call("Cast", S, type_="INT"), literal("3")), "its CAST may fail"),
        (call("EqualTo", call("Cast", column("b", "BIGINT"), type_="INT"), literal("3")), "its CAST may fail"),
        (call("Or", call("IsNull", A), call("Nondeterministic")), "it is not deterministic"),
        (call("GreaterThan", A, call("SubqueryExpression", type_="INT")), "it holds a sub-query"),
        (call("EqualTo", call("PythonUDF", A, type_="INT"), literal("1")), "it calls a function of users"),
        (call("Like", S, literal("x\\", "STRING"), text="\\"), "its pattern may be invalid"),
        (call("Like", S, S, text="\\"), "its pattern may be invalid"),
        (call("EqualTo", column("c", "STRING COLLATE UTF8_LCASE"), S), "its texts have a collation"),
        (call("EqualTo", column("x", "BINARY"), literal("0x00", "BINARY")), "it has a value of the type BINARY"),
        (call("RLike", S, S), "RLike is not known to succeed for every row"),
    ],
)
def test_what_is_not(condition: Spark, reason: str) -> None:
    with pytest.raises(NotPushedError, match=reason):
        pushed(condition)


@pytest.mark.parametrize(
    ("narrow", "wide", "safe"),
    [
        ("TINYINT", "INT", True),
        ("BIGINT", "INT", False),
        ("INT", "DECIMAL(10,0)", True),
        ("INT", "DECIMAL(10,2)", False),
        ("DECIMAL(10,2)", "DECIMAL(12,4)", True),
        ("DECIMAL(10,2)", "DECIMAL(12,1)", False),
        ("DECIMAL(10,2)", "DECIMAL(10,3)", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False),
        ("STRING", "DATE", False),
    ],
)
def test_casts_that_cannot_fail(narrow: str, wide: str, safe: bool) -> None:
    cast = call("IsNull", call("Cast", column("a", narrow), type_=wide))
    if safe:
        assert render(pushed(cast)) == f"CAST(input.a AS {wide}) IS NULL"
    else:
        with pytest.raises(NotPushedError):
            pushed(cast)
