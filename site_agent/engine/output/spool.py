"""The spool: files into which Spark's Python workers write a large output, one for each partition, past the driver.

Possible only where executors share this machine's disk. The workers' code is sent to them by value (`pyworker.spool`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from site_agent.engine import pyworker
from site_agent.engine.chunks import Chunks, gathered, slices

MANY_BYTES = 16 * 1024 * 1024
"""The size of input above which the Python workers are worth their start."""


def empty_of(output: DataFrame) -> pa.Table:
    """No rows, with the output's columns."""
    return _schema(output).empty_table()


def spooled(output: DataFrame, directory: Path) -> tuple[DataFrame, Chunks]:
    """Run the job and write the rows of each partition into a file of its own.

    Args:
        output: what to compute.
        directory: a directory of this machine that the executors see; the files get a directory of their own in it.

    Returns:
        The frame that was executed, with the counters of `output`; and the rows.

    Raises:
        PySparkException, Py4JError: Spark failed.
        OSError: the disk refused.
    """
    schema = _schema(output)
    files = Path(tempfile.mkdtemp(dir=directory, prefix="spool-"))
    try:
        # By position: a column's own name may hold a dot, which is a path to Spark.
        unnamed = output.toDF(*(f"c{index}" for index in range(len(schema))))
        written = unnamed.mapInArrow(pyworker.spool(str(files)), pyworker.SPOOLED)
        parts = sorted((_Part(**row.asDict()) for row in written.collect()), key=lambda part: part.partition)
        for part in parts:
            if part.error:
                raise OSError(part.error, os.strerror(part.error), str(files / part.file))
    except BaseException:
        shutil.rmtree(files, ignore_errors=True)
        raise
    rows, size_bytes = sum(part.rows for part in parts), sum(part.size_bytes for part in parts)
    tables = _read([files / part.file for part in parts if part.rows], schema)
    return written, Chunks(rows, size_bytes, tables, lambda: shutil.rmtree(files, ignore_errors=True))


def _schema(output: DataFrame) -> pa.Schema:
    return to_arrow_schema(output.schema, timezone="UTC", prefers_large_types=False)


@dataclass(frozen=True, slots=True)
class _Part:
    """A worker's row about a partition, see `pyworker.SPOOLED`."""

    partition: int
    file: str
    rows: int
    size_bytes: int
    error: int


def _read(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    for file in files:
        with closing(pa.OSFile(str(file))) as stream, ipc.open_stream(stream) as batches:
            for held in gathered(batches):
                table = pa.Table.from_batches(held).rename_columns(schema.names).cast(schema)
                yield from slices(table)
        file.unlink()
