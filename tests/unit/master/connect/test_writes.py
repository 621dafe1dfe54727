"""Write commands of Spark's clients name a sink and its columns."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.connect import proto as pb

from master.connect.writes import insert_of, into_columns, write_of
from planner.relations.catalog import Column, Relation, RelationKind
from planner.values.errors import InvalidDefinitionError, UnsupportedSqlError

RANGE = pb.Relation(range=pb.Range(start=0, end=3, step=1))
SINK = Relation("best", RelationKind.SINK, (Column("n", "BIGINT"), Column("a `b", "STRING")), ())
INTO = pb.WriteOperation.SaveTable.TABLE_SAVE_METHOD_INSERT_INTO


def appended(**more: Any) -> pb.Command:
    write = pb.WriteOperationV2(input=RANGE, table_name="`best`", mode=pb.WriteOperationV2.MODE_APPEND, **more)
    return pb.Command(write_operation_v2=write)


def inserted(method: Any = INTO, **more: Any) -> pb.Command:
    table = pb.WriteOperation.SaveTable(table_name="best", save_method=method)
    return pb.Command(write_operation=pb.WriteOperation(input=RANGE, table=table, **more))


def rows(**types: str) -> pb.DataType:
    kinds = {"long": pb.DataType(long=pb.DataType.Long()), "string": pb.DataType(string=pb.DataType.String())}
    fields = [pb.DataType.StructField(name=name, data_type=kinds[kind]) for name, kind in types.items()]
    return pb.DataType(struct=pb.DataType.Struct(fields=fields))


def test_rows_are_appended_by_name_or_by_place() -> None:
    by_name, by_place = write_of(appended()), write_of(inserted())
    assert (by_name.sink, by_name.by_name, by_name.relation) == ("best", True, RANGE)
    assert (by_place.sink, by_place.by_name) == ("best", False)
    assert write_of(inserted(mode=pb.WriteOperation.SAVE_MODE_APPEND)) == by_place


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (appended(provider="parquet"), "with provider"),
        (appended(options={"x": "y"}), "with options"),
        (appended(overwrite_condition=pb.Expression(literal=pb.Expression.Literal(boolean=True))), "with overwrite"),
        (pb.Command(write_operation_v2=pb.WriteOperationV2(mode=pb.WriteOperationV2.MODE_CREATE)), "to append rows"),
        (inserted(source="csv"), "with source"),
        (inserted(partitioning_columns=["n"]), "with partitioning"),
        (inserted(mode=pb.WriteOperation.SAVE_MODE_OVERWRITE), "to append rows"),
        (inserted(pb.WriteOperation.SaveTable.TABLE_SAVE_METHOD_SAVE_AS_TABLE), "to append rows"),
        (pb.Command(write_operation=pb.WriteOperation(input=RANGE, path="/tmp/x")), "to append rows"),
    ],
)
def test_other_writes_are_refused(command: pb.Command, message: str) -> None:
    with pytest.raises(UnsupportedSqlError, match=message):
        write_of(command)


def test_columns_go_into_those_of_the_sink_with_their_types() -> None:
    by_name = into_columns(write_of(appended()), rows(**{"A `B": "string", "n": "long"}), SINK)
    assert by_name.project.input == RANGE
    first, second = by_name.project.expressions
    assert (first.alias.name, first.alias.expr.cast.type_str) == (["n"], "BIGINT")
    assert second.alias.expr.cast.expr.unresolved_attribute.unparsed_identifier == "`a ``b`"
    by_place = into_columns(write_of(inserted()), rows(x="long", y="long"), SINK)
    assert by_place.project.input.to_df.column_names == ["n", "a `b"]
    free = Relation("free", RelationKind.SINK, (), ())
    assert into_columns(write_of(inserted()), rows(x="long"), free) == RANGE


@pytest.mark.parametrize(
    ("command", "found", "message"),
    [
        (appended(), rows(n="long"), "1 columns are written, and sink best has 2"),
        (appended(), rows(n="long", b="string"), "no column a `b is written"),
        (inserted(), rows(x="string", y="string"), "x is STRING, and cannot go into column n BIGINT of sink best"),
    ],
)
def test_columns_that_do_not_fit(command: pb.Command, found: pb.DataType, message: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=message):
        into_columns(write_of(command), found, SINK)


def test_which_texts_insert() -> None:
    insert = insert_of(" insert INTO best SELECT 1 AS n")
    assert insert is not None
    assert insert.target.name == "best"
    assert [insert_of(text) for text in ("", "SELECT 1", "SHOW TABLES")] == [None] * 3
