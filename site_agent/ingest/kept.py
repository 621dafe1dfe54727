"""The records that a push log holds, read by their numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from site_agent.base.errors import CorruptEpochError, CorruptLogError
from site_agent.channels.codec import EncodedRows, decode
from site_agent.ingest.frames import FrameHeader
from site_agent.ingest.segment import Segment, damaged


@dataclass(frozen=True, slots=True)
class Arrived:
    """The rows of one record."""

    at_us: int
    """The time on the site's clock at which they were stored."""
    rows: pa.Table


class KeptRecords:
    """Safe to use from several threads; the log writes and removes under the same lock."""

    def __init__(self, directory: Path, schema: pa.Schema, segments: list[Segment], lock: threading.RLock) -> None:
        self._directory = directory
        self._lock = lock
        self.schema = schema
        self.segments = segments
        """In order. The log replaces the whole list."""

    @property
    def first_record(self) -> int:
        """The oldest record that the log holds; equals `next_record` when it holds none."""
        segments = self.segments
        return segments[0].first_record if segments else 0

    @property
    def next_record(self) -> int:
        segments = self.segments
        return segments[-1].next_record if segments else 0

    @property
    def next_row(self) -> int:
        """The number of rows ever stored."""
        segments = self.segments
        return segments[-1].next_row if segments else 0

    @property
    def size_bytes(self) -> int:
        return sum(s.size_bytes for s in self.segments)

    def extent(self, start: int, *, rows: int, raw_bytes: int) -> int:
        """The end of the records from `start` on that stay within the limits; at least one record, if there is one.

        Raises:
            CorruptLogError: records from `start` on are gone.
        """
        with self._lock:
            end = start
            while (segment := self._segment_of(end)) is not None:
                fitting = segment.fitting(end, rows=rows, raw_bytes=raw_bytes)
                until = max(fitting, start + 1 if end == start else end)
                rows -= segment.row_of(until) - segment.row_of(end)
                raw_bytes -= segment.raw_before(until) - segment.raw_before(end)
                end = until
                if end < segment.next_record:
                    break
            return end

    def rows_from(self, record: int) -> int:
        """Rows in the records from this one on."""
        with self._lock:
            segment = self._segment_of(record)
            return self.next_row - segment.row_of(record) if segment else 0

    def read(self, start: int, end: int, columns: Sequence[str]) -> pa.Table:
        """Columns of the records [start, end), which the caller's reader retains.

        Raises:
            CorruptLogError: the file is damaged.
        """
        tables = [record.rows.select(list(columns)) for record in self.records(start, end)]
        return pa.concat_tables([self.schema.empty_table().select(list(columns)), *tables])

    def records(self, start: int, end: int) -> Iterator[Arrived]:
        """The records [start, end) that have rows, which the caller's reader retains.

        Raises:
            CorruptLogError: the file is damaged.
        """
        position = start
        while position < end:
            with self._lock:
                segment = self._segment_of(position)
            assert segment is not None, "nothing is read beyond what `extent` told"
            until = min(end, segment.next_record)
            for header, payload in segment.read(position, until):
                if header.rows:
                    yield Arrived(header.at_us, _decoded(segment, header, payload))
            position = until

    def _segment_of(self, record: int) -> Segment | None:
        """The segment that holds the record; None: the record does not exist yet."""
        if record >= self.next_record:
            if record > self.next_record:
                raise self._gone(record)
            return None
        for segment in self.segments:
            if segment.first_record <= record < segment.next_record:
                return segment
        raise self._gone(record)

    def _gone(self, record: int) -> CorruptLogError:
        return CorruptLogError(
            f"{self._directory} holds records {self.first_record} to {self.next_record - 1}, not record {record}",
            hint="its files were removed or are those of another time; submit the query again",
        )


def _decoded(segment: Segment, header: FrameHeader, payload: bytes) -> pa.Table:
    encoded = EncodedRows(segment.schema, payload, header.raw_bytes, header.rows, header.payload_crc32)
    try:
        return decode(encoded)
    except CorruptEpochError as error:
        raise damaged(segment.path, f"record {header.record}: {error.message}") from error
