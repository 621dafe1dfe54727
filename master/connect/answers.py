"""Makes the responses of executions: Arrow batches, schemas, progress. The protocol's classes are PySpark's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
from pyspark.sql.connect import proto as pb
from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type, pyspark_types_to_proto_types
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema


class Batches:
    """Turns parts of a result into responses, in order.

    Args:
        schema: the `DataType` of the rows; None: that of the first rows.
        timezone: of the session.
    """

    def __init__(self, schema: Any | None, timezone: str) -> None:
        self._schema = schema
        self._timezone = timezone
        self._rows = 0
        self._told = False

    def response(self, stream: bytes, rows: int) -> Any:
        """A response with rows, which are an Arrow IPC stream."""
        return self._response(self._named(stream), rows)

    def nothing(self) -> Any | None:
        """A response without rows, which a client needs when there are none at all; None: it has had some."""
        if self._told or self._schema is None:
            return None
        schema = to_arrow_schema(proto_schema_to_pyspark_data_type(self._schema), timezone=self._timezone)
        return self._response(stream_of(schema.empty_table()), 0)

    def _response(self, stream: bytes, rows: int) -> Any:
        response = pb.ExecutePlanResponse(
            arrow_batch=pb.ExecutePlanResponse.ArrowBatch(row_count=rows, data=stream, start_offset=self._rows)
        )
        if not self._told:
            response.schema.CopyFrom(self._schema if self._schema is not None else _schema_of(stream))
        self._rows += rows
        self._told = True
        return response

    def _named(self, stream: bytes) -> bytes:
        """The rows under the names of the schema: on their way, equal names were told apart."""
        if self._schema is None:
            return stream
        names = [field.name for field in self._schema.struct.fields]
        with ipc.open_stream(stream) as reader:
            if reader.schema.names == names or len(reader.schema.names) != len(names):
                return stream
            return stream_of(reader.read_all().rename_columns(names))


def stream_of(table: pa.Table) -> bytes:
    """The table as an Arrow IPC stream of at least one batch: clients know the columns of no rows by that."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def texts(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], types: Sequence[pa.DataType] | None = None
) -> pa.Table:
    """A small table; of texts, unless other types are given."""
    kinds = types or [pa.string()] * len(columns)
    arrays = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    return pa.Table.from_arrays(arrays, names=list(columns))


def local_relation(table: pa.Table) -> Any:
    """A relation of these rows, as the answer to a command of SQL."""
    return pb.Relation(
        local_relation=pb.LocalRelation(data=stream_of(table), schema=from_arrow_schema(table.schema).json())
    )


def progress(done: int, tasks: int, rows_bytes: int) -> Any:
    """A response that shells and notebooks show as a bar."""
    stage = pb.ExecutePlanResponse.ExecutionProgress.StageInfo(
        stage_id=0, num_tasks=tasks, num_completed_tasks=done, input_bytes_read=rows_bytes, done=done == tasks
    )
    return pb.ExecutePlanResponse(
        execution_progress=pb.ExecutePlanResponse.ExecutionProgress(
            stages=[stage], num_inflight_tasks=max(tasks - done, 0)
        )
    )


def _schema_of(stream: bytes) -> Any:
    with ipc.open_stream(stream) as reader:
        return pyspark_types_to_proto_types(from_arrow_schema(reader.schema))
