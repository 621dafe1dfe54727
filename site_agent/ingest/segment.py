"""A segment: a file of consecutive records after a head, with an index in memory of where each record is."""

from __future__ import annotations

import base64
import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from site_agent.base import posix
from site_agent.base.errors import CorruptLogError
from site_agent.ingest.frames import FrameHeader, FrameKind, FramePlace, TornFrameError, locate, pack, payload_of
from site_agent.ingest.producers import Producers

SUFFIX = ".segment"


@dataclass(frozen=True, slots=True)
class Head:
    """Summarizes everything before the segment, so that older segments can be removed."""

    first_record: int
    first_row: int
    schema: bytes
    producers: Producers
    ended: bool

    def pack(self) -> bytes:
        content = {
            "schema": base64.b64encode(self.schema).decode(),
            "producers": self.producers.to_json(),
            "ended": self.ended,
        }
        header = FrameHeader(FrameKind.HEAD, self.first_record, self.first_row)
        return pack(header, json.dumps(content).encode())


@dataclass(slots=True)
class Segment:
    path: Path
    schema: bytes
    first_record: int
    first_row: int
    head_bytes: int
    ends: array[int] = field(default_factory=lambda: array("Q"))
    """The end of each record in the file."""
    rows: array[int] = field(default_factory=lambda: array("Q"))
    """The number of the row after each record."""
    raw_bytes: array[int] = field(default_factory=lambda: array("Q"))
    """The size in memory of the records up to each one."""
    newest_at_us: int = 0

    @property
    def next_record(self) -> int:
        return self.first_record + len(self.ends)

    @property
    def next_row(self) -> int:
        return self.rows[-1] if self.rows else self.first_row

    @property
    def size_bytes(self) -> int:
        return self.ends[-1] if self.ends else self.head_bytes

    def add(self, place: FramePlace) -> None:
        """Index a record that was written to the file."""
        self.ends.append(place.end)
        self.rows.append(place.header.first_row + place.header.rows)
        self.raw_bytes.append((self.raw_bytes[-1] if self.raw_bytes else 0) + place.header.raw_bytes)
        self.newest_at_us = max(self.newest_at_us, place.header.at_us)

    def start_of(self, record: int) -> int:
        """Where in the file a record begins; for `next_record`, where it would begin."""
        index = record - self.first_record
        return self.ends[index - 1] if index else self.head_bytes

    def row_of(self, record: int) -> int:
        index = record - self.first_record
        return self.rows[index - 1] if index else self.first_row

    def raw_before(self, record: int) -> int:
        """Raw bytes of the segment's records before this one."""
        index = record - self.first_record
        return self.raw_bytes[index - 1] if index else 0

    def fitting(self, start: int, *, rows: int, raw_bytes: int) -> int:
        """The first record from `start` on beyond these limits of rows or bytes."""
        by_rows = bisect_right(self.rows, max(0, self.row_of(start) + rows))
        by_bytes = bisect_right(self.raw_bytes, max(0, self.raw_before(start) + raw_bytes))
        return self.first_record + min(by_rows, by_bytes)

    def read(self, start: int, end: int) -> Iterator[tuple[FrameHeader, bytes]]:
        """The records [start, end) with their payloads, whose checksums are verified.

        Raises:
            CorruptLogError: the file is damaged.
        """
        first, last = self.start_of(start), self.start_of(end)
        try:
            with self.path.open("rb") as file:
                file.seek(first)
                data = file.read(last - first)
            position = 0
            for _ in range(start, end):
                place = locate(data, position)
                yield place.header, payload_of(data, place)
                position = place.end
        except (TornFrameError, OSError) as error:
            raise damaged(self.path, f"records {start} to {end - 1} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class Opened:
    """A segment as it was found on disk."""

    segment: Segment
    head: Head
    records: tuple[FrameHeader, ...]


def segment_path(directory: Path, first_record: int) -> Path:
    return directory / f"{first_record:016d}{SUFFIX}"


def open_segment(path: Path, *, before: int | None) -> Opened:
    """Index a segment: its whole frames in order, up to record `before`; None: it is the last segment, whose payloads
    are verified.

    Raises:
        CorruptLogError: it has no sound head.
    """
    with _mapped(path) as data:
        head, head_bytes = _head(path, data)
        segment = Segment(path, head.schema, head.first_record, head.first_row, head_bytes)
        records = []
        position = head_bytes
        while before is None or segment.next_record < before:
            try:
                place = locate(data, position)
                if before is None:
                    payload_of(data, place)
            except TornFrameError:
                break
            if (place.header.record, place.header.first_row) != (segment.next_record, segment.next_row):
                break
            segment.add(place)
            records.append(place.header)
            position = place.end
    return Opened(segment, head, tuple(records))


def damaged(path: Path, what: str) -> CorruptLogError:
    return CorruptLogError(
        f"{path} is damaged: {what}",
        hint="put the file back from a copy, or drop the stream and create it anew",
        ids={"file": str(path)},
    )


def _head(path: Path, data: memoryview) -> tuple[Head, int]:
    try:
        place = locate(data, 0)
        value = json.loads(payload_of(data, place))
        head = Head(
            place.header.record,
            place.header.first_row,
            base64.b64decode(value["schema"]),
            Producers.from_json(value["producers"]),
            bool(value["ended"]),
        )
    except (TornFrameError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, f"its head cannot be read: {error}") from error
    return head, place.end


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with path.open("rb") as file:
        if not file.seek(0, 2):
            yield memoryview(b"")
            return
        with posix.viewed(file) as view:
            yield view
