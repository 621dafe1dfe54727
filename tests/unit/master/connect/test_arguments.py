"""Arguments of SQL texts, in the messages in which Spark's clients of all versions send them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyspark.sql.connect.functions as sf
import pytest
from pyspark.sql.connect import proto as pb
from pyspark.sql.connect.plan import SQL

from master.connect.arguments import with_values
from planner.values.errors import InvalidExpressionError

Literal = pb.Expression.Literal
ELEMENT = pb.DataType(integer=pb.DataType.Integer())


def relation(text: str, *positional: Any, **named: Any) -> pb.Relation:
    """Return what PySpark's client sends."""
    columns = {name: sf.lit(value) for name, value in named.items()}
    client: Any = None
    return SQL(text, [sf.lit(value) for value in positional], columns).plan(client)


def text_of(given: pb.Relation) -> str:
    made = with_values(given)
    assert made.sql == pb.SQL(query=made.sql.query)
    return str(made.sql.query)


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (5, "5"),
        (-5, "-5"),
        (2**40, "CAST('1099511627776' AS BIGINT)"),
        (1.5, "CAST('1.5' AS DOUBLE)"),
        (Decimal("1.50"), "CAST('1.50' AS DECIMAL(3,2))"),
        ("' OR 1=1 --", "'\\' OR 1=1 --'"),
        (b"\x01", "X'01'"),
        (date(1969, 12, 31), "CAST('1969-12-31' AS DATE)"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "CAST('2026-01-02 03:00:00+00:00' AS TIMESTAMP_LTZ)"),
        (timedelta(seconds=-90), "INTERVAL '-0 00:01:30.000000' DAY TO SECOND"),
        ([1, 2], "array(1, 2)"),
        (sf.create_map(sf.lit("a"), sf.lit(1)), "map('a', 1)"),
        (sf.struct(sf.lit(1), sf.lit("x").alias("b'")), "named_struct('col1', 1, 'b\\'', 'x')"),
        (sf.lit("x").alias("y"), "'x'"),
    ],
)
def test_what_pysparks_client_sends(value: Any, sql: str) -> None:
    assert text_of(relation("SELECT ?", value)) == f"SELECT {sql}"
    assert text_of(relation("SELECT :a", a=value)) == f"SELECT {sql}"


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (Literal(byte=-1), "CAST('-1' AS TINYINT)"),
        (Literal(short=1), "CAST('1' AS SMALLINT)"),
        (Literal(long=1), "CAST('1' AS BIGINT)"),
        (Literal(float=0.5), "CAST('0.5' AS FLOAT)"),
        (Literal(timestamp_ntz=1), "CAST('1970-01-01 00:00:00.000001' AS TIMESTAMP_NTZ)"),
        (Literal(year_month_interval=-3), "INTERVAL '-3' MONTH"),
        (Literal(null=ELEMENT), "CAST(NULL AS int)"),
        (Literal(null=pb.DataType(timestamp=pb.DataType.Timestamp())), "CAST(NULL AS timestamp_ltz)"),
        (Literal(decimal=Literal.Decimal(value="2", precision=4, scale=3)), "CAST('2' AS DECIMAL(1,0))"),
        (Literal(array=Literal.Array(elements=[Literal(integer=1)])), "array(1)"),
        (Literal(array=Literal.Array(element_type=ELEMENT)), "CAST(array() AS ARRAY<int>)"),
        (Literal(specialized_array=Literal.SpecializedArray(ints=pb.Ints(values=[1, 2]))), "array(1, 2)"),
        (Literal(map=Literal.Map(keys=[Literal(string="a")], values=[Literal(integer=1)])), "map('a', 1)"),
    ],
)
def test_literals_of_other_clients_in_each_field(value: Any, sql: str) -> None:
    expression = pb.Expression(literal=value)
    for given in (
        pb.SQL(query="SELECT ?", pos_args=[value]),
        pb.SQL(query="SELECT ?", pos_arguments=[expression]),
        pb.SQL(query="SELECT :a", args={"a": value}),
        pb.SQL(query="SELECT :a", named_arguments={"a": expression}),
    ):
        assert text_of(pb.Relation(sql=given)) == f"SELECT {sql}"


def test_each_text_in_a_plan_has_its_own() -> None:
    text = relation("SELECT ?", 1)
    beside = pb.Relation(subquery_alias=pb.SubqueryAlias(input=relation("SELECT :x", x="a"), alias="v"))
    both = pb.Relation(with_relations=pb.WithRelations(root=text, references=[beside]))
    found = with_values(both).with_relations
    assert found.root.sql.query == "SELECT 1"
    assert found.references[0].subquery_alias.input.sql.query == "SELECT 'a'"
    assert both.with_relations.root.sql.query == "SELECT ?"


def test_without_arguments_a_plan_is_the_same() -> None:
    for given in (pb.Relation(sql=pb.SQL(query="SELECT :x")), pb.Relation(range=pb.Range(end=3, step=1))):
        assert with_values(given) is given


def sql_of(value: Any) -> pb.Relation:
    return pb.Relation(sql=pb.SQL(query="SELECT ?", pos_args=[value]))


@pytest.mark.parametrize(
    ("given", "said", "condition"),
    [
        (relation("SELECT :x", y=1), "no value for parameter :x", "UNBOUND_SQL_PARAMETER"),
        (relation("SELECT ?, ?", 1), "question mark 2", "UNBOUND_SQL_PARAMETER"),
        (relation("SELECT ?, :x", 1, x=1), "both", "INVALID_QUERY_MIXED_QUERY_PARAMETERS"),
        (relation("SELECT '?", 1), "cannot have this", "PARSE_SYNTAX_ERROR"),
        (relation("SELECT ?", sf.col("a")), "argument 1.*unresolved_attribute", "INVALID_SQL_ARG"),
        (relation("SELECT ?", sf.lit(1) + sf.lit(2)), r"argument 1.*\+ is no literal", "INVALID_SQL_ARG"),
        (relation("SELECT :x", x=sf.expr("1")), "argument x.*expression_string", "INVALID_SQL_ARG"),
        (relation("SELECT ?", sf.lit("1").cast("int")), "cast is no literal", "INVALID_SQL_ARG"),
        (relation("SELECT ?", sf.array(sf.rand(1))), "rand is no literal", "INVALID_SQL_ARG"),
        (sql_of(Literal()), "unknown", "INVALID_SQL_ARG"),
        (sql_of(Literal(time=Literal.Time(nano=1))), "type time", "INVALID_SQL_ARG"),
        (sql_of(Literal(date=10**9)), "year is not one", "INVALID_SQL_ARG"),
        (sql_of(Literal(decimal=Literal.Decimal(value="x"))), "x is no decimal", "INVALID_SQL_ARG"),
        (sql_of(Literal(array=Literal.Array())), "type unknown", "INVALID_SQL_ARG"),
        (sql_of(Literal(map=Literal.Map(keys=[Literal(integer=1)]))), "a value for each", "INVALID_SQL_ARG"),
        (
            sql_of(Literal(null=pb.DataType(struct=pb.DataType.Struct(fields=[{"name": "a", "data_type": ELEMENT}])))),
            "type struct<a:int>",
            "INVALID_SQL_ARG",
        ),
    ],
)
def test_what_cannot_be_bound(given: pb.Relation, said: str, condition: str) -> None:
    with pytest.raises(InvalidExpressionError, match=said) as raised:
        with_values(given)
    assert raised.value.ids["condition"] == condition
