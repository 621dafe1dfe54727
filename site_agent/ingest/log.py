"""The durable log of one pushed stream at one site."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from contract.times import to_us
from machine.clock import Clock
from site_agent.base.errors import (
    CorruptEpochError,
    CorruptLogError,
    IngestError,
    SequenceGapError,
    StreamEndedError,
    UnknownStreamError,
)
from site_agent.base.waiters import Waiters
from site_agent.channels.codec import EncodedRows, decode
from site_agent.ingest import Acknowledged, NoRoom, Push, StreamLog
from site_agent.ingest.files import LogFiles, disk_errors
from site_agent.ingest.frames import FrameHeader, FrameKind, locate
from site_agent.ingest.group import Group
from site_agent.ingest.options import LogLimits
from site_agent.ingest.readers import Readers
from site_agent.ingest.recovery import MARK_NAME, pack_mark, recover
from site_agent.ingest.segment import Head, Segment, damaged, segment_path

Outcome = Acknowledged | NoRoom | IngestError
"""What became of one push."""

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Arrived:
    """The rows of one record."""

    at_us: int
    """The time on the site's clock at which they were stored."""
    rows: pa.Table


class PushLog:
    """Appends records in groups and reads them back by number. Safe to use from several threads.

    Raises, when made:
        CorruptLogError: acknowledged records are missing or damaged.
    """

    def __init__(
        self, directory: Path, schema: pa.Schema, *, limits: LogLimits, clock: Clock, files: LogFiles | None = None
    ) -> None:
        self.directory = directory
        self.changes = Waiters()
        """Woken when there is more room."""
        self.room_changes = 0
        """Grows whenever there may be more room than before."""
        self._schema = schema
        self._limits = limits
        self._clock = clock
        self._files = files or LogFiles()
        self._lock = threading.RLock()
        self._readers = Readers()
        self._closed = False
        # Behind an error of the disk the end of the file is unknown: no record may follow it there.
        self._tail_unsure = False
        with disk_errors(self.directory):
            self._files.make_directory(directory)
            found = recover(directory, self._files)
        self._segments = found.segments
        self._producers = found.producers
        self._ended = found.ended

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def first_record(self) -> int:
        """The oldest record that is kept; equals `next_record` when none is."""
        segments = self._segments
        return segments[0].first_record if segments else 0

    @property
    def next_record(self) -> int:
        segments = self._segments
        return segments[-1].next_record if segments else 0

    @property
    def next_row(self) -> int:
        """Rows that were ever stored."""
        segments = self._segments
        return segments[-1].next_row if segments else 0

    @property
    def size_bytes(self) -> int:
        return sum(s.size_bytes for s in self._segments)

    def use(self, stream: str) -> StreamLog:
        """How much is kept. Blocking: a write under way is waited for."""
        with self._lock:
            first = self.first_record
            return StreamLog(
                stream,
                size_bytes=self.size_bytes,
                rows=self.rows_from(first),
                batches=self.next_record - first,
                rows_stored=self.next_row,
                limit_bytes=self._limits.retention_bytes,
                ended=self._ended,
            )

    def last_sequence(self, producer: str) -> int:
        """The producer's last durable sequence; 0: none."""
        return self._producers.last_sequence(producer)

    def append(self, pushes: Sequence[Push]) -> list[Outcome]:
        """Store what is new, with one sync for all; what became of each push, in order.

        Raises:
            DiskFullError: nothing was stored; the log is as it was.
            IngestError: likewise, for another reason.
        """
        with self._lock:
            self._check_open()
            group = Group(self.next_record, self.next_row, to_us(self._clock.now()))
            outcomes = [self._admit(push, group) for push in pushes]
            if group.frames:
                with disk_errors(self.directory):
                    self._write(group)
                self._producers.note_all((name, seq, group.at_us) for name, seq in group.sequences.items())
            return outcomes

    def finish(self) -> int:
        """End the stream; the rows it had in all. Ending it again changes nothing.

        Raises:
            IngestError: as `append`.
        """
        with self._lock:
            self._check_open()
            if not self._ended:
                group = Group(self.next_record, self.next_row, to_us(self._clock.now()))
                group.add(group.frame(FrameKind.END), 0)
                with disk_errors(self.directory):
                    self._write(group)
                self._ended = True
            return self.next_row

    def extent(self, start: int, *, rows: int, raw_bytes: int) -> int:
        """The record up to which a reader at `start` takes so much at most, but one record at least if there is one.

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
        """These columns of the records [start, end), which are held by a reader.

        Raises:
            CorruptLogError: the file is damaged.
        """
        tables = [record.rows.select(list(columns)) for record in self.records(start, end)]
        return pa.concat_tables([self._schema.empty_table().select(list(columns)), *tables])

    def records(self, start: int, end: int) -> Iterator[Arrived]:
        """The records [start, end) that have rows. The caller's reader keeps them in the log.

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

    def set_readers(self, names: Iterable[str]) -> None:
        """Say who reads: a new reader holds everything that is kept until it advances, one that is gone nothing."""
        with self._lock:
            changed = self._readers.set_names(names)
        if changed:
            self._wake()

    def advance(self, reader: str, record: int) -> None:
        """This reader needs nothing before `record`, also after a crash."""
        with self._lock:
            changed = self._readers.advance(reader, record)
        if changed:
            self._wake()

    def set_limits(self, limits: LogLimits) -> None:
        with self._lock:
            self._limits = limits
        self._wake()

    def trim(self) -> None:
        """Remove what is too old or too much and that every reader has passed.

        Raises:
            IngestError: the disk refused.
        """
        with self._lock, disk_errors(self.directory):
            if self._closed:
                return
            oldest_us = to_us(self._clock.now()) - self._limits.retention // _MICROSECOND
            while self._segments and self._segments[0].ends and self._segments[0].newest_at_us < oldest_us:
                if not self._remove_oldest():
                    break
            self._make_room(0)

    def close(self) -> None:
        """Nothing can be stored any more."""
        with self._lock:
            self._closed = True

    def _admit(self, push: Push, group: Group) -> Outcome:
        """What becomes of a push if the group's records get durable."""
        last = group.sequences.get(push.producer, self._producers.last_sequence(push.producer))
        if push.sequence <= last:
            return Acknowledged(push.sequence, 0, duplicate=True)
        if group.blocked is not None:
            return group.blocked
        if self._ended:
            return StreamEndedError(
                "the stream has ended at this site", hint="drop it and create it anew to push more rows"
            )
        if push.sequence != last + 1:
            return SequenceGapError(
                f"producer {push.producer} is at sequence {last}, but {push.sequence} came",
                hint=f"send sequence {last + 1} first",
                ids={"producer": push.producer, "expected_sequence": str(last + 1)},
            )
        frame = group.frame(FrameKind.ROWS, push)
        if not self._make_room(group.size_bytes + len(frame), alone=not group.frames):
            group.blocked = self._no_room()
            return group.blocked
        group.add(frame, push.row_count)
        group.sequences[push.producer] = push.sequence
        return Acknowledged(push.sequence, push.row_count)

    def _write(self, group: Group) -> None:
        segment = self._active()
        try:
            self._files.append(segment.path, segment.size_bytes, b"".join(group.frames))
        except OSError:
            self._tail_unsure = True
            with suppress(OSError):
                # Gives back the space that the part of it took.
                self._files.truncate(segment.path, segment.size_bytes)
            raise
        for frame in group.frames:
            place = locate(frame, 0)
            segment.add(replace(place, end=segment.size_bytes + place.end))
        self._note_durable(segment)

    def _active(self) -> Segment:
        """The segment that takes the next record."""
        if not self._segments or self._tail_unsure or self._segments[-1].size_bytes >= self._limits.segment_bytes:
            self._roll()
        return self._segments[-1]

    def _roll(self) -> None:
        """Begin a segment; it takes the place of one without records."""
        self._producers.forget_silent(to_us(self._clock.now()))
        schema = self._schema.serialize().to_pybytes()
        head = Head(self.next_record, self.next_row, schema, self._producers, self._ended)
        content = head.pack()
        path = segment_path(self.directory, head.first_record)
        # Until it is known to be there or not, nothing may be added to the one before it.
        self._tail_unsure = True
        self._files.create(path, content)
        segment = Segment(path, schema, head.first_record, head.first_row, len(content))
        self._segments = [s for s in self._segments if s.ends] + [segment]
        self._tail_unsure = False

    def _note_durable(self, segment: Segment) -> None:
        # It only sharpens what recovery can tell: the records themselves are durable already.
        with suppress(OSError):
            self._files.note(self.directory / MARK_NAME, pack_mark(segment))

    def _make_room(self, size_bytes: int, *, alone: bool = True) -> bool:
        """Remove what was passed until so much fits; whether it does. A log that holds nothing takes anything."""
        while self.size_bytes + size_bytes > self._limits.retention_bytes:
            if alone and not any(s.ends for s in self._segments):
                return True
            if not self._remove_oldest():
                return False
        return True

    def _remove_oldest(self) -> bool:
        """Remove the oldest segment if every reader has passed it; whether that was so."""
        oldest = self._segments[0] if self._segments else None
        if oldest is None or not oldest.ends or oldest.next_record > self._readers.passed(self.next_record):
            return False
        if len(self._segments) == 1:
            self._roll()
        with disk_errors(self.directory):
            self._files.remove(oldest.path)
        self._segments = self._segments[1:]
        return True

    def _no_room(self) -> NoRoom:
        slowest = ", ".join(self._readers.slowest()[:3])
        return NoRoom(
            f"the log holds {self.size_bytes} of {self._limits.retention_bytes} bytes (retention_bytes), "
            f"and {slowest} has not read the oldest"
        )

    def _segment_of(self, record: int) -> Segment | None:
        """The segment that holds the record; None: it is yet to come."""
        if record >= self.next_record:
            if record > self.next_record:
                raise self._gone(record)
            return None
        for segment in self._segments:
            if segment.first_record <= record < segment.next_record:
                return segment
        raise self._gone(record)

    def _gone(self, record: int) -> CorruptLogError:
        return CorruptLogError(
            f"{self.directory} holds records {self.first_record} to {self.next_record - 1}, not record {record}",
            hint="its files were removed or are those of another time; submit the query again",
        )

    def _check_open(self) -> None:
        if self._closed:
            raise UnknownStreamError("the stream was dropped, or its site's agent is ending")

    def _wake(self) -> None:
        self.room_changes += 1
        self.changes.wake()


def _decoded(segment: Segment, header: FrameHeader, payload: bytes) -> pa.Table:
    encoded = EncodedRows(segment.schema, payload, header.raw_bytes, header.rows, header.payload_crc32)
    try:
        return decode(encoded)
    except CorruptEpochError as error:
        raise damaged(segment.path, f"record {header.record}: {error.message}") from error
