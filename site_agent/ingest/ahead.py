"""Rows whose event time is further ahead of the site's clock than a stream allows.

One such row would move the watermark, and all rows of the present would be late. Rows are judged by the clock's time at
which they were stored, which the log keeps: when they are read again, the same rows are ahead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from site_agent.engine import MalformedRow
from site_agent.ingest.kept import Arrived

_MICROSECOND = timedelta(microseconds=1)
_LAST_US = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Ahead:
    """The rows of one record that are too far ahead."""

    rows: pa.Table
    event_time: str
    at_us: int
    max_ahead: timedelta

    def malformed(self) -> Iterator[MalformedRow]:
        """The rows as JSON objects, each with a reason that names its event time, the clock's time and the limit."""
        clock = _shown(self.at_us)
        for batch in self.rows.to_batches(max_chunksize=1000):
            times = _micros(pa.Table.from_batches([batch]), self.event_time).to_pylist()
            for row, time_us in zip(_as_objects(batch), times, strict=True):
                yield MalformedRow(
                    "",
                    f"{self.event_time}: {_shown(time_us)} is more than {self.max_ahead} ahead of the site's clock, "
                    f"which said {clock} when the row came (max_ahead)",
                    json.dumps(row, ensure_ascii=False, default=str),
                )


def by_arrival(record: Arrived, event_time: str, max_ahead: timedelta) -> tuple[pa.Table, Ahead]:
    """Split the rows of a record into those that may be read and those that are too far ahead."""
    latest_us = min(record.at_us + max_ahead // _MICROSECOND, _LAST_US)
    ahead = pc.fill_null(pc.greater(_micros(record.rows, event_time), latest_us), False)
    apart = Ahead(record.rows.filter(ahead), event_time, record.at_us, max_ahead)
    return (record.rows.filter(pc.invert(ahead)) if apart.rows.num_rows else record.rows), apart


def _micros(rows: pa.Table, event_time: str) -> pa.ChunkedArray:
    times = rows.column(event_time)
    return times.cast(pa.timestamp("us", tz=getattr(times.type, "tz", None))).cast(pa.int64())


def _as_objects(batch: pa.RecordBatch) -> Sequence[Mapping[str, object]]:
    """The rows as Python values. Python has no times beyond the year 9999: these become microseconds since 1970."""
    try:
        objects: Sequence[Mapping[str, object]] = batch.to_pylist()
    except (ValueError, OverflowError):
        if batch.num_rows > 1:
            return [row for at in range(batch.num_rows) for row in _as_objects(batch.slice(at, 1))]
        plain = [
            batch.column(name).cast(pa.int64()) if pa.types.is_timestamp(batch.schema.field(name).type) else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        objects = pa.RecordBatch.from_arrays(plain, names=batch.schema.names).to_pylist()
    return objects


def _shown(time_us: int) -> str:
    try:
        return (_EPOCH + time_us * _MICROSECOND).isoformat()
    except OverflowError:
        return f"{time_us} microseconds after 1970"
