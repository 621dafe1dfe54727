"""Columns of Parquet files as they are, read by Arrow where Spark would only pass them on.

For a row to leave Spark as Arrow, Spark puts it together from columns, takes it apart into columns again and sends it
through a Python process: several times the work of reading it. So where Spark's optimizer leaves nothing of a query
but a choice of columns, the files are read here. Only types of which both readers make the same values are taken; all
else, and whatever is unusual in a file, is left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from site_agent.base.errors import EngineError
from site_agent.engine import FilesScan
from site_agent.engine.chunks import CHUNK_BYTES, Chunks, gathered, slices
from site_agent.engine.output.operators import INPUT

_BATCH_ROWS = 8192
"""At most; fewer where rows are long."""
_BUFFER_BYTES = 1024 * 1024
"""The read buffer of a column, so that a row group need not fit memory."""
_TYPES: Mapping[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
}
"""None of time: Spark reads dates in old files by another calendar."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file, and what is read of it."""

    path: str
    columns: tuple[str, ...]
    """By the file's own names, one for each column of the output."""
    rows: int
    size_bytes: int
    """Before compression."""

    @property
    def batch_rows(self) -> int:
        """So many rows that they are no more than a chunk."""
        return max(1, min(_BATCH_ROWS, CHUNK_BYTES * self.rows // max(1, self.size_bytes)))


def picked_columns(output: DataFrame) -> tuple[str, ...] | None:
    """The columns of the input that an output is made of, in order; None when it is anything else."""
    node = output._jdf.queryExecution().optimizedPlan()
    wanted = [_id(attribute) for attribute in _items(node.output())]
    same: dict[int, int] = {}
    above_input = False
    while (kind := str(node.nodeName())) != "LogicalRelation":
        if kind == "Project":
            same |= _renamed(node.projectList())
        elif kind != INPUT:
            return None
        above_input = above_input or kind == INPUT
        node = node.child()
    names = {_id(attribute): str(attribute.name()) for attribute in _items(node.output())}
    found = [names.get(_origin(attribute, same), "") for attribute in wanted]
    return tuple(found) if above_input and found and all(found) else None


def chunks_as_they_are(
    columns: Sequence[str], scan: FilesScan, files: Sequence[str], schema: pa.Schema, kept: ExitStack
) -> Chunks | None:
    """The rows of an output that is made of these columns of Parquet files; None when only Spark is sure to read them.

    Args:
        columns: for each column of the output, the one of the input.
        scan: of the input.
        files: the files of the input, to be read whole.
        schema: of the output.
        kept: keeps the files; what it holds becomes the rows', to be let go of with them.
    """
    types = {column.name: _TYPES.get(column.type) for column in scan.columns}
    wanted = [(name, types.get(name)) for name in columns]
    found = []
    for path in files:
        file = _looked_at(path, wanted)
        if file is None:
            return None
        found.append(file)
    rows, size_bytes = sum(file.rows for file in found), sum(file.size_bytes for file in found)
    return Chunks(rows, size_bytes, _read(found, schema), kept.pop_all().close)


def _looked_at(path: str, wanted: Sequence[tuple[str, pa.DataType | None]]) -> _File | None:
    """None: the file has other columns than those that are wanted, or cannot be read here."""
    with suppress(pa.ArrowException, OSError), pq.ParquetFile(path) as file:
        fields: dict[str, list[pa.Field]] = {}
        for field in file.schema_arrow:
            fields.setdefault(field.name.lower(), []).append(field)
        names = []
        for name, kind in wanted:
            # Spark finds columns whatever their case. To Arrow's reader a dot is a path.
            match = fields.get(name.lower(), [])
            if kind is None or [field.type for field in match] != [kind] or "." in match[0].name:
                return None
            names.append(match[0].name)
        metadata = file.metadata
        size_bytes = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
        return _File(path, tuple(names), metadata.num_rows, size_bytes)
    return None


def _read(files: Sequence[_File], schema: pa.Schema) -> Iterator[pa.Table]:
    """Raises EngineError when a file is not what it was."""
    for file in files:
        try:
            with pq.ParquetFile(file.path, buffer_size=_BUFFER_BYTES) as opened:
                if opened.metadata.num_rows != file.rows:
                    raise EngineError(f"{file.path} was replaced while it was read")
                for batches in gathered(_batches(opened, file, schema)):
                    yield from slices(pa.Table.from_batches(batches))
        except (pa.ArrowException, OSError) as error:
            raise EngineError(f"{file.path} cannot be read as Parquet: {error}") from error


def _batches(opened: pq.ParquetFile, file: _File, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    names = list(dict.fromkeys(file.columns))
    for batch in opened.iter_batches(batch_size=file.batch_rows, columns=names, use_threads=False):
        yield pa.RecordBatch.from_arrays([batch.column(name) for name in file.columns], schema=schema)


def _renamed(project: JavaObject) -> dict[int, int]:
    """The items of a projection that only rename an attribute."""
    items = (item for item in _items(project) if str(item.nodeName()) == "Alias")
    return {_id(item): _id(item.child()) for item in items if str(item.child().nodeName()) == "AttributeReference"}


def _origin(attribute: int, same: Mapping[int, int]) -> int:
    while attribute in same:
        attribute = same[attribute]
    return attribute


def _items(sequence: JavaObject) -> Iterator[JavaObject]:
    return (sequence.apply(index) for index in range(sequence.size()))


def _id(attribute: JavaObject) -> int:
    return int(attribute.exprId().id())
