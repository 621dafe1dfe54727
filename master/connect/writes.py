"""Writes of Spark's clients: what goes into which sink, and by which columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.connect import proto as pb
from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

from planner.relations.catalog import Column, Relation
from planner.rules.sinks import can_store
from planner.sql.script import parse_script
from planner.sql.statements import InsertInto
from planner.values.errors import InvalidDefinitionError, UnsupportedSqlError

_HINT = "append to a sink of Selat: df.writeTo('sink').append(), df.write.insertInto('sink')"
_OF_V2 = ("provider", "partitioning_columns", "options", "table_properties", "overwrite_condition")
_OF_V1 = ("source", "options", "sort_column_names", "partitioning_columns", "bucket_by")


@dataclass(frozen=True, slots=True)
class Write:
    """Rows that go into a sink."""

    relation: Any
    """A `spark.connect.Relation`."""
    sink: str
    """Its name as the client wrote it."""
    by_name: bool
    """Columns go to those of the same name; else to those in the same place."""


def write_of(command: Any) -> Write:
    """Return what a command of the protocol writes.

    Args:
        command: a `spark.connect.Command` of the kind `write_operation` or `write_operation_v2`.

    Raises:
        UnsupportedSqlError: it writes elsewhere, or does more than append.
    """
    kind = command.WhichOneof("command_type")
    write = getattr(command, kind)
    if kind == "write_operation_v2":
        appends, name = write.mode == pb.WriteOperationV2.MODE_APPEND, write.table_name
        more = [given for given in _OF_V2 if _is_given(write, given)]
    else:
        table = pb.WriteOperation.SaveTable.TABLE_SAVE_METHOD_INSERT_INTO
        modes = (pb.WriteOperation.SAVE_MODE_UNSPECIFIED, pb.WriteOperation.SAVE_MODE_APPEND)
        appends, name = write.mode in modes and write.table.save_method == table, write.table.table_name
        more = [given for given in _OF_V1 if _is_given(write, given)]
    if not appends:
        raise UnsupportedSqlError(f"{kind} is possible into sinks alone, to append rows", found=kind, hint=_HINT)
    if more:
        raise UnsupportedSqlError(f"{kind} with {more[0]} is not possible", found=more[0], hint=_HINT)
    return Write(write.input, name.strip().strip("`"), by_name=kind == "write_operation_v2")


def insert_of(text: str) -> InsertInto | None:
    """Return the INSERT that a text is; None: it is another statement."""
    if text.split(None, 1)[:1] and text.split(None, 1)[0].upper() == "INSERT":
        statements = parse_script(text)
        if len(statements) == 1 and isinstance(statements[0], InsertInto):
            return statements[0]
    return None


def into_columns(write: Write, schema: Any, sink: Relation) -> Any:
    """Return the relation with the sink's columns; one without columns takes those of the relation.

    Args:
        write: what is written.
        schema: the `DataType` of its rows.
        sink: where it goes.

    Raises:
        InvalidDefinitionError: the columns do not fit those of the sink.
    """
    if not sink.columns:
        return write.relation
    fields = proto_schema_to_pyspark_data_type(schema).fields
    found = [Column(field.name, field.dataType.simpleString().upper()) for field in fields]
    if len(found) != len(sink.columns):
        raise InvalidDefinitionError(
            f"{len(found)} columns are written, and sink {sink.name} has {len(sink.columns)}",
            found=write.sink,
            hint=f"the sink's are {_listed(sink.columns)}",
        )
    relation = write.relation
    if write.by_name:
        by_name = {column.name.lower(): column for column in found}
        missing = [column.name for column in sink.columns if column.name.lower() not in by_name]
        if missing:
            raise InvalidDefinitionError(
                f"no column {missing[0]} is written, which sink {sink.name} has",
                found=missing[0],
                hint=f"written are {_listed(found)}; insertInto goes by their places",
            )
        found = [by_name[column.name.lower()] for column in sink.columns]
    else:
        names = [column.name for column in sink.columns]
        relation = pb.Relation(to_df=pb.ToDF(input=relation, column_names=names))
    for own, wanted in zip(found, sink.columns, strict=True):
        if not can_store(own.type, wanted.type):
            raise InvalidDefinitionError(
                f"column {own.name} is {own.type}, and cannot go into column {wanted.name} {wanted.type} "
                f"of sink {sink.name}",
                found=own.name,
                hint=f"cast it where that is meant: df.withColumn('{own.name}', df['{own.name}'].cast(...))",
            )
    expressions = [_stored(wanted) for wanted in sink.columns]
    return pb.Relation(project=pb.Project(input=relation, expressions=expressions))


def _stored(column: Column) -> Any:
    quoted = column.name.replace("`", "``")
    value = pb.Expression(unresolved_attribute=pb.Expression.UnresolvedAttribute(unparsed_identifier=f"`{quoted}`"))
    stored = pb.Expression(cast=pb.Expression.Cast(expr=value, type_str=column.type))
    return pb.Expression(alias=pb.Expression.Alias(expr=stored, name=[column.name]))


def _is_given(write: Any, name: str) -> bool:
    field = write.DESCRIPTOR.fields_by_name[name]
    return bool(len(getattr(write, name))) if field.is_repeated else bool(write.HasField(name))


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)
