"""Tests the answers to questions about what there is."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest

from master.flight.commands import METADATA
from master.flight.metadata import answer, schema_of
from master.flight.protocol import flight_sql_pb2 as sql
from planner.relations.catalog import Column, Relation, RelationKind


def relations() -> Iterable[Relation]:
    yield Relation("visits", RelationKind.STREAM, (Column("at", "TIMESTAMP"), Column("n", "BIGINT")), ())
    yield Relation("Orders_2", RelationKind.TABLE, (Column("id", "INT"), Column("odd", "VARIANT")), ())
    yield Relation("orders", RelationKind.VIEW, (Column("total", "DECIMAL(10,2)"),), ())


def tables(**asked: object) -> list[tuple[str, str]]:
    found = answer(sql.CommandGetTables(**asked), relations)  # type: ignore[arg-type]
    return [(row["table_name"], row["table_type"]) for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["Orders_2", "orders", "visits"]),
        ({"table_name_filter_pattern": "ORDERS%"}, ["Orders_2", "orders"]),
        ({"table_name_filter_pattern": "order_"}, ["orders"]),
        ({"table_name_filter_pattern": "o.*"}, []),
        ({"table_types": ["TABLE", "STREAM"]}, ["Orders_2", "visits"]),
        ({"catalog": ""}, ["Orders_2", "orders", "visits"]),
        ({"catalog": "other"}, []),
        ({"db_schema_filter_pattern": "%"}, ["Orders_2", "orders", "visits"]),
        ({"db_schema_filter_pattern": "public"}, []),
    ],
)
def test_tables_are_found_by_patterns_and_kinds(asked: dict[str, object], names: list[str]) -> None:
    assert [name for name, _ in tables(**asked)] == names


def test_kinds_are_those_that_can_be_asked_for() -> None:
    known = answer(sql.CommandGetTableTypes(), relations)["table_type"].to_pylist()
    assert {kind for _, kind in tables()} <= set(known) == {kind.value.upper() for kind in RelationKind}


def test_tables_have_their_columns_where_asked() -> None:
    found = answer(sql.CommandGetTables(include_schema=True), relations)
    schemas = [pa.ipc.read_schema(pa.py_buffer(data)) for data in found["table_schema"].to_pylist()]
    assert schemas == [
        # A type that is unknown in Arrow is shown as text.
        pa.schema([("id", pa.int32()), ("odd", pa.string())]),
        pa.schema([("total", pa.decimal128(10, 2))]),
        pa.schema([("at", pa.timestamp("us", tz="UTC")), ("n", pa.int64())]),
    ]


@pytest.mark.parametrize("kind", METADATA)
def test_the_columns_of_an_answer_do_not_depend_on_what_there_is(kind: type) -> None:
    assert answer(kind(), relations).schema == schema_of(kind())


def test_one_catalog_and_one_schema_without_names() -> None:
    assert answer(sql.CommandGetCatalogs(), relations).to_pylist() == [{"catalog_name": ""}]
    assert answer(sql.CommandGetDbSchemas(), relations).to_pylist() == [{"catalog_name": "", "db_schema_name": ""}]
    assert answer(sql.CommandGetDbSchemas(catalog="other"), relations).num_rows == 0


def test_facts_by_number() -> None:
    found = answer(sql.CommandGetSqlInfo(info=[0, 8, 3, 77777]), relations)
    assert [(row["info_name"], row["value"]) for row in found.to_pylist()] == [(0, "Selat"), (8, 0), (3, False)]
    every = answer(sql.CommandGetSqlInfo(), relations)
    assert every.num_rows > 10
    assert every.schema == found.schema
    every.validate(full=True)
