"""The durable log of one pushed stream at one site."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from contract.times import to_us
from machine.clock import Clock
from site_agent.base.errors import IngestError, SequenceGapError, StreamEndedError, UnknownStreamError
from site_agent.ingest import Acknowledged, NoRoom, Push, StreamLog
from site_agent.ingest.arrivals import Arrivals
from site_agent.ingest.files import LogFiles, disk_errors
from site_agent.ingest.frames import FrameKind
from site_agent.ingest.group import Group
from site_agent.ingest.kept import KeptRecords
from site_agent.ingest.options import LogLimits
from site_agent.ingest.recovery import recover
from site_agent.ingest.room import Room
from site_agent.ingest.tail import Tail

Outcome = Acknowledged | NoRoom | IngestError
"""The outcome of one push."""


class PushLog:
    """Appends records in groups: `kept` has those that are there, `room` makes room for more. Thread-safe.

    Raises, when made:
        CorruptLogError: acknowledged records are missing or damaged.
    """

    def __init__(
        self, directory: Path, schema: pa.Schema, *, limits: LogLimits, clock: Clock, files: LogFiles | None = None
    ) -> None:
        files = files or LogFiles()
        self._directory = directory
        self._files = files
        self._clock = clock
        self._arrivals: Arrivals | None = None
        self._lock = threading.RLock()
        self._closed = False
        with disk_errors(directory):
            files.make_directory(directory)
            found = recover(directory, files)
        self.kept = KeptRecords(directory, schema, found.segments, self._lock)
        self._tail = Tail(directory, files, clock, kept=self.kept, found=found)
        self.room = Room(self.kept, self._tail, clock, limits=limits, lock=self._lock)

    @property
    def ended(self) -> bool:
        return self._tail.ended

    def use(self, stream: str) -> StreamLog:
        """How much the log holds. Waits for a write that is under way."""
        with self._lock:
            kept, first = self.kept, self.kept.first_record
            return StreamLog(
                stream,
                size_bytes=kept.size_bytes,
                rows=kept.rows_from(first),
                batches=kept.next_record - first,
                rows_stored=kept.next_row,
                limit_bytes=self.room.limits.retention_bytes,
                ended=self.ended,
            )

    def last_sequence(self, producer: str) -> int:
        """The producer's last durable sequence; 0: none."""
        return self._tail.producers.last_sequence(producer)

    def append(self, pushes: Sequence[Push]) -> list[Outcome]:
        """Store new records, with one sync for all; returns the outcome of each push, in order.

        Raises:
            DiskFullError: nothing was stored; the log is as it was.
            IngestError: likewise, for another reason.
        """
        with self._lock:
            self._check_open()
            with disk_errors(self._directory):
                group = self._group()
                outcomes = [self._admit(push, group) for push in pushes]
                if group.frames:
                    self._write(group)
            self._tail.producers.note_all((name, seq, group.at_us) for name, seq in group.sequences.items())
            return outcomes

    def finish(self) -> int:
        """End the stream; returns the number of all its rows. Ending it again changes nothing.

        Raises:
            IngestError: as `append`.
        """
        with self._lock:
            self._check_open()
            if not self.ended:
                group = self._group()
                group.add(group.frame(FrameKind.END), 0)
                with disk_errors(self._directory):
                    self._write(group)
                self._tail.ended = True
            return self.kept.next_row

    def order_arrivals(self) -> None:
        """Let the times of records never go back, because they are the event times of their rows; before any push.

        Raises:
            CorruptLogError: what was promised of them cannot be read.
        """
        newest_us = max([self._tail.producers.newest_us, *(segment.newest_at_us for segment in self.kept.segments)])
        self._arrivals = Arrivals(self._directory, self._files, newest_us=newest_us)

    def floor_us(self, record: int) -> int | None:
        """Return the time before which no record from this one on arrives, of a log by arrival; None where records that
        are stored say it. Waits for a write that is under way.

        Raises:
            IngestError: the disk refused.
        """
        with self._lock, disk_errors(self._directory):
            if self._arrivals is None or record < self.kept.next_record:
                return None
            return self._arrivals.promise(to_us(self._clock.now()))

    def trim(self) -> None:
        """Remove records beyond the retention that every reader has passed.

        Raises:
            IngestError: the disk refused.
        """
        with self._lock, disk_errors(self._directory):
            if not self._closed:
                self.room.trim()

    def close(self) -> None:
        """Close the log: nothing more can be stored."""
        with self._lock:
            self._closed = True

    def _group(self) -> Group:
        clock_us = to_us(self._clock.now())
        at_us = clock_us if self._arrivals is None else self._arrivals.next_us(clock_us)
        return Group(self.kept.next_record, self.kept.next_row, at_us)

    def _write(self, group: Group) -> None:
        self._tail.write(group, segment_bytes=self.room.limits.segment_bytes)

    def _admit(self, push: Push, group: Group) -> Outcome:
        """The outcome of a push if the group's records become durable."""
        last = group.sequences.get(push.producer, self._tail.producers.last_sequence(push.producer))
        if push.sequence <= last:
            return Acknowledged(push.sequence, 0, duplicate=True)
        if group.blocked is not None:
            return group.blocked
        if self.ended:
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
        if not self.room.make(group.size_bytes + len(frame), alone=not group.frames):
            group.blocked = self.room.none()
            return group.blocked
        group.add(frame, push.row_count)
        group.sequences[push.producer] = push.sequence
        return Acknowledged(push.sequence, push.row_count)

    def _check_open(self) -> None:
        if self._closed:
            raise UnknownStreamError("the stream was dropped, or its site's agent is ending")
