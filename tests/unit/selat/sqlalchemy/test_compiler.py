"""SQL that the dialect makes of SQLAlchemy's expressions; nothing is connected."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Enum,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
    types,
    update,
)
from sqlalchemy.exc import CompileError
from sqlalchemy.schema import CreateTable, DropTable

from planner.sql.script import parse_script
from planner.sql.statements import SelectQuery
from selat.sqlalchemy import SelatDialect

DIALECT: Any = SelatDialect()
T = Table("Orders", MetaData(), Column("id", types.BIGINT), Column("end", String))


def sql(statement: Any, *, literals: bool = False) -> str:
    options = {"literal_binds": True} if literals else {}
    return " ".join(str(statement.compile(dialect=DIALECT, compile_kwargs=options)).split())


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (select(T.c.id, T.c.end), "SELECT `Orders`.`id`, `Orders`.`end` FROM `Orders`"),
        (select(func.count()).select_from(T), "SELECT count(*) AS `count_1` FROM `Orders`"),
        (select(T.c.id).limit(2).offset(3), "SELECT `Orders`.`id` FROM `Orders` LIMIT 2 OFFSET 3"),
        (select(T.c.id).fetch(2).offset(3), "SELECT `Orders`.`id` FROM `Orders` LIMIT 2 OFFSET 3"),
        (select(T.c.id).offset(3), "SELECT `Orders`.`id` FROM `Orders` OFFSET 3"),
        (
            select(T.c.id / 2, T.c.id // 2),
            "SELECT `Orders`.`id` / 2 AS `anon_1`, FLOOR(`Orders`.`id` / 2) AS `anon_2` FROM `Orders`",
        ),
        (
            select(T.c.id).where(T.c.end.regexp_match("^a")),
            "SELECT `Orders`.`id` FROM `Orders` WHERE `Orders`.`end` RLIKE '^a'",
        ),
        (
            select(T.c.id).where(~T.c.end.regexp_match("^a")),
            "SELECT `Orders`.`id` FROM `Orders` WHERE NOT (`Orders`.`end` RLIKE '^a')",
        ),
        (
            select(T.c.id).where(T.c.id.in_([])),
            "SELECT `Orders`.`id` FROM `Orders` WHERE `Orders`.`id` IN (NULL) AND (1 != 1)",
        ),
        (select(T.alias("o").c.id), "SELECT `o`.`id` FROM `Orders` AS `o`"),
    ],
)
def test_queries(statement: Any, text: str) -> None:
    assert sql(statement, literals=True) == text
    (parsed,) = parse_script(text)
    assert isinstance(parsed, SelectQuery)


def test_the_only_schema_is_not_named() -> None:
    named, other = (Table("t", MetaData(schema=schema), Column("a", types.BIGINT)) for schema in ("default", "x"))
    assert sql(select(named.c.a)) == "SELECT `t_1`.`a` FROM `t` AS `t_1`"
    assert sql(select(other.c.a)) == "SELECT `x`.`t`.`a` FROM `x`.`t`"


def test_values_are_bound_by_position() -> None:
    assert sql(select(T.c.id).where(T.c.id > 5)) == "SELECT `Orders`.`id` FROM `Orders` WHERE `Orders`.`id` > ?"


class Size(enum.Enum):
    SMALL = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (literal("it's \\ ' OR 1=1"), "'it\\'s \\\\ \\' OR 1=1'"),
        (literal(None), "NULL"),
        (literal(True), "TRUE"),
        (literal(1.5), "CAST('1.5' AS DOUBLE)"),
        (literal(Decimal("1.5")), "CAST('1.5' AS DECIMAL(2,1))"),
        (literal(b"\x01", LargeBinary), "X'01'"),
        (literal(date(2026, 1, 2)), "CAST('2026-01-02' AS DATE)"),
        (literal(datetime(2026, 1, 2, tzinfo=UTC)), "CAST('2026-01-02 00:00:00+00:00' AS TIMESTAMP_LTZ)"),
        (literal(Size.SMALL, Enum(Size)), "'SMALL'"),
    ],
)
def test_literals_are_sparks(value: Any, text: str) -> None:
    assert sql(select(value), literals=True).startswith(f"SELECT {text} AS")


def test_what_has_no_literal() -> None:
    with pytest.raises(CompileError, match="object"):
        sql(select(literal(object(), types.NullType())), literals=True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (types.Integer(), "INT"),
        (types.BigInteger(), "BIGINT"),
        (types.Float(), "DOUBLE"),
        (types.Double(), "DOUBLE"),
        (types.REAL(), "FLOAT"),
        (Numeric(), "DECIMAL(38,18)"),
        (Numeric(5), "DECIMAL(5,0)"),
        (Numeric(5, 2), "DECIMAL(5,2)"),
        (String(10), "STRING"),
        (types.Text(), "STRING"),
        (types.Unicode(), "STRING"),
        (types.LargeBinary(), "BINARY"),
        (types.VARBINARY(5), "BINARY"),
        (types.DateTime(), "TIMESTAMP"),
        (types.TIMESTAMP(timezone=True), "TIMESTAMP"),
        (types.Boolean(), "BOOLEAN"),
    ],
)
def test_types_are_sparks(kind: Any, text: str) -> None:
    assert sql(select(cast(T.c.id, kind))).startswith(f"SELECT CAST(`Orders`.`id` AS {text})")


@pytest.mark.parametrize(
    "statement",
    [insert(T), insert(T).from_select(["id"], select(T.c.id)), update(T), delete(T), CreateTable(T), DropTable(T)],
)
def test_nothing_is_written(statement: Any) -> None:
    with pytest.raises(CompileError, match=r"reads only.*INSERT INTO sink"):
        sql(statement)


def test_what_is_rare() -> None:
    with pytest.raises(CompileError, match="no locks"):
        sql(select(T.c.id).with_for_update())
    with pytest.raises(CompileError, match="neither ties nor percentages"):
        sql(select(T.c.id).fetch(2, with_ties=True))
    assert DIALECT.statement_compiler(DIALECT, None).visit_empty_set_expr([1, 2]) == "SELECT NULL, NULL WHERE FALSE"
    assert "(NULL, NULL)" in sql(select(T.c.id).where(tuple_(T.c.id, T.c.end).in_([])), literals=True)
