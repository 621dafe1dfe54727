"""Files sorted by event time, for replays: a total order, so that the same files always give the same rows in place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from planner.values.literals import quoted_name
from site_agent.engine import MALFORMED_NAME, FilesScan
from site_agent.engine.output.collect import collect
from site_agent.engine.scans.frames import Frames
from site_agent.engine.scans.malformed import write_malformed

ROWS_PER_PART = 65_536
"""A part is decoded whole when a few of its rows are wanted."""

PARTITION_BYTES = 128 * 1024 * 1024


def write_sorted(session: SparkSession, frames: Frames, scan: FilesScan, *, event_time: str, directory: Path) -> None:
    """Write a scan's rows as Parquet parts: by event time (NULL first), then by all other columns with an order.

    Malformed rows go to a file of their own.
    """
    with frames.open(session, scan) as frame:
        partitions = max(frame.partitions, _total_bytes(scan) // PARTITION_BYTES)
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        session.conf.set("spark.sql.leafNodeDefaultParallelism", str(partitions))
        rows, malformed = frame.rows, Observation()
        if frame.malformed_column:
            mark = sf.col(quoted_name(frame.malformed_column))
            counted = rows.observe(malformed, sf.count_if(mark.isNotNull()).alias("rows"))
            rows = counted.where(mark.isNull()).drop(mark)
        ordered = _ordered(rows, event_time)
        if frames.remote:
            _write_here(collect(ordered), directory)
        else:
            ordered.write.mode("overwrite").option("maxRecordsPerFile", ROWS_PER_PART).parquet(str(directory))
        # A sort may read its input twice, to find where to cut: only whether there are any is certain here.
        if frame.malformed is not None and (frame.set_aside or malformed.get["rows"]):
            write_malformed(directory / MALFORMED_NAME, frame.malformed())


def _write_here(rows: pa.Table, directory: Path) -> None:
    """Executors cannot write to this machine's disk: the driver has them sort, and writes."""
    for number, start in enumerate(range(0, rows.num_rows, ROWS_PER_PART)):
        pq.write_table(rows.slice(start, ROWS_PER_PART), directory / f"part-{number:05d}-sorted-c000.parquet")


def _ordered(rows: DataFrame, event_time: str) -> DataFrame:
    others = [f.name for f in rows.schema.fields if f.name != event_time and _has_order(f.dataType)]
    return rows.orderBy(*(sf.col(quoted_name(name)).asc_nulls_first() for name in (event_time, *others)))


def _has_order(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_order(kind.elementType)
    if isinstance(kind, StructType):
        return all(_has_order(f.dataType) for f in kind.fields)
    return not isinstance(kind, MapType | VariantType)


def _total_bytes(scan: FilesScan) -> int:
    return sum(Path(path).stat().st_size for path in scan.paths)
