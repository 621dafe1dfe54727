"""A DataFrame's rows as Arrow, from a Spark that may die on the way, and in a file where they are many.

Rows come over a socket from a thread of the JVM, and PySpark's `toArrow` then waits until that thread says how it
ended. It does after an exception. What Scala calls fatal (a stack overflow, a class that cannot be linked, an
interrupt) ends the thread without a word, and the wait would never end. So a plan is made before the rows are asked
for, in a call that answers with whatever it threw, and the wait for the thread's last word is bounded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.ipc as ipc
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer, ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.util import _load_from_socket

LAST_WORD_S = 30.0
"""The socket is closed by then: a thread that lives has nothing to do but to say so. And a JVM that ends because that
thread had no more heap has ended, and the agent with it (`lifeline`), before the epoch would count as failed."""


HELD_BYTES = 64 * 1024 * 1024
"""Rows beyond this are written to a file as they come, and the table is mapped from it."""


def collect(
    rows: DataFrame, *, spill: Path | None = None, held_bytes: int = HELD_BYTES, last_word_s: float = LAST_WORD_S
) -> pa.Table:
    """All rows; waits for Spark's job as long as it runs.

    Args:
        rows: what to compute.
        spill: directory for rows beyond `held_bytes`; the file has no name and is gone with the table. None: all rows
            are held in memory.
        last_word_s: how long to wait for the thread that sent them.

    Raises:
        PySparkException, Py4JError, OSError, ArrowException: Spark failed, or died while it sent the rows.
    """
    rows._jdf.queryExecution().executedPlan()
    session = rows.sparkSession
    limit = session._jvm.scala.concurrent.duration.Duration.create(int(last_word_s * 1e3), "milliseconds")
    return _Collected(_Dataset(rows._jdf, limit), session, ArrowRows(spill, held_bytes)).toArrow()


class _Spilling(ArrowStreamSerializer):  # type: ignore[misc]
    """Batches as they come: the first in memory; when they are too many, all of them in a file that is mapped."""

    def __init__(self, spill: Path | None, held_bytes: int) -> None:
        super().__init__()
        self._spill = spill
        self._held_bytes = held_bytes

    def load_stream(self, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        size_bytes = 0
        arriving = super().load_stream(stream)
        for batch in arriving:
            held.append(batch)
            size_bytes += batch.nbytes
            if self._spill is not None and size_bytes > self._held_bytes:
                yield from _mapped(held, arriving, self._spill)
                return
        yield from held


class ArrowRows(ArrowCollectSerializer, _Spilling):  # type: ignore[misc]
    """The batches of a job, in order: `ArrowCollectSerializer` takes them from `_Spilling`."""


def _mapped(
    held: list[pa.RecordBatch], arriving: Iterator[pa.RecordBatch], directory: Path
) -> Iterator[pa.RecordBatch]:
    """These batches and those that follow, from a file that is gone when nobody has them any more."""
    with tempfile.NamedTemporaryFile(dir=directory, suffix=".arrow") as file:
        with ipc.new_file(file, held[0].schema) as writer:
            for batch in held:
                writer.write_batch(batch)
            held.clear()
            for batch in arriving:
                writer.write_batch(batch)
        file.flush()
        reader = ipc.open_file(pa.memory_map(file.name))
    yield from (reader.get_batch(index) for index in range(reader.num_record_batches))


class _Collected(ClassicDataFrame):  # type: ignore[misc]
    """A DataFrame whose rows are read by a serializer of ours."""

    def __init__(self, dataset: _Dataset, session: Any, serializer: ArrowRows) -> None:
        super().__init__(dataset, session)
        self._serializer = serializer

    def _collect_as_arrow(
        self,
        split_batches: bool = False,
        empty_list_if_zero_records: bool = True,
        prefers_large_var_types: bool = False,
    ) -> list[pa.RecordBatch]:
        port, secret, sender = self._jdf.collectAsArrowToPython()
        try:
            with _load_from_socket((port, secret), self._serializer) as batches:
                found = list(batches)
        finally:
            with unwrap_spark_exception():
                sender.getResult()
        if found or empty_list_if_zero_records:
            return found
        schema = to_arrow_schema(self.schema, timezone="UTC", prefers_large_types=prefers_large_var_types)
        return [pa.RecordBatch.from_pylist([], schema=schema)]


class _Dataset:
    """A Java Dataset, but for how long the thread that sends its rows is waited for."""

    def __init__(self, inner: JavaObject, limit: JavaObject) -> None:
        self._inner = inner
        self._limit = limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def collectAsArrowToPython(self) -> tuple[int, str, _Sender]:  # noqa: N802 - Spark's name
        port, secret, sender = self._inner.collectAsArrowToPython()
        return port, secret, _Sender(sender, self._limit)


class _Sender:
    """The thread that sends the rows."""

    def __init__(self, inner: JavaObject, limit: JavaObject) -> None:
        self._inner = inner
        self._limit = limit

    def getResult(self) -> None:  # noqa: N802 - Spark's name
        """Raises how it ended."""
        try:
            self._inner.getResult(self._limit)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != "java.util.concurrent.TimeoutException":
                raise
            raise Py4JError("a thread of Spark's died while it sent the rows; spark.log says of what") from None
