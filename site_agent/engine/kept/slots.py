"""The slots of a plan: where it finds the rows or the files of an epoch."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from site_agent.engine.kept.inputs import SlotFiles, SlotInput, SlotRows
from site_agent.engine.scans.files import files_reader, picked
from site_agent.engine.sql.statements import expression
from site_agent.engine.sql.types import schema_of

_BATCH_ROWS = 16_384
_PLACE_BYTES = 100 * 1024 * 1024
"""What Spark takes for the size of a file, of which nothing is stored: too much to be broadcast in a join (10 MB), and
not so much that its reader would cut it (128 MiB)."""


def slot(directory: Path, view: str) -> Path:
    """The file in which a plan finds the rows of a view."""
    return directory / f"{view}.slot"


def places(directory: Path) -> Path:
    """The directory of the files over which a plan for files is made."""
    return directory / "places"


def leaf(session: SparkSession, view: str, found: SlotInput, directory: Path) -> DataFrame:
    """A view's columns over its slots in the directory.

    Raises:
        PySparkException: a column's type has no counterpart in Arrow.
        OSError: the slots cannot be made.
    """
    if isinstance(found, SlotFiles):
        return _files_leaf(session, found, directory)
    reader = session.read.format("selat.SlotSource").schema(found.schema)
    rows = reader.option("path", str(slot(directory, view))).option("view", view).load().coalesce(1)
    if not found.expressions:
        return rows
    return rows.select(*(expression(session, text).alias(name) for name, text in found.expressions))


def write_rows(found: SlotRows, path: Path) -> None:
    """Put rows into a slot."""
    with pa.OSFile(str(path), "wb") as file, ipc.new_stream(file, found.rows.schema) as stream:
        stream.write_table(found.rows, max_chunksize=_BATCH_ROWS)


def files_text(found: SlotFiles, directory: Path) -> str:
    """One line for each place, for `KeptPlan.run`: the file's URI, its size in bytes, and when it changed, in
    milliseconds since the Unix epoch. An empty file is in each place that is left.

    Raises:
        OSError: a file is gone.
    """
    paths = [Path(path).absolute() for path in found.paths]
    empty = [_empty(directory)] * (found.places - len(paths))
    return "\n".join(_line(path, path.stat()) for path in (*paths, *empty))


def _line(path: Path, status: os.stat_result) -> str:
    return f"{path.as_uri()}\t{status.st_size}\t{status.st_mtime_ns // 1_000_000}"


def _files_leaf(session: SparkSession, found: SlotFiles, directory: Path) -> DataFrame:
    """Spark looks at how many files there are and at their sizes when it plans, and at their content when it runs."""
    _write_empty(found, _empty(directory))
    places(directory).mkdir()
    for number in range(found.places):
        with (places(directory) / f"{number:06d}").open("wb") as file:
            file.truncate(_PLACE_BYTES)
    rows = files_reader(session, found.scan, found.record_end).load(str(places(directory)))
    return picked(rows, found.scan).coalesce(1)


def _empty(directory: Path) -> Path:
    return directory / "empty"


def _write_empty(found: SlotFiles, path: Path) -> None:
    """A file of the format without rows."""
    if found.scan.format == "parquet":
        pq.write_table(to_arrow_schema(schema_of(found.scan.columns), timezone="UTC").empty_table(), path)
    else:
        path.touch()
