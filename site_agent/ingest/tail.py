"""The two ends of a push log: records are written at one, segments are removed at the other."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from contract.times import to_us
from machine.clock import Clock
from site_agent.ingest.files import LogFiles
from site_agent.ingest.frames import locate
from site_agent.ingest.group import Group
from site_agent.ingest.kept import KeptRecords
from site_agent.ingest.recovery import MARK_NAME, Recovered, pack_mark
from site_agent.ingest.segment import Head, Segment, segment_path


class Tail:
    """Changes segments and their files, under the log's lock. Raises OSError when the disk refuses."""

    def __init__(self, directory: Path, files: LogFiles, clock: Clock, *, kept: KeptRecords, found: Recovered) -> None:
        self._directory = directory
        self._files = files
        self._clock = clock
        self._kept = kept
        self.producers = found.producers
        self.ended = found.ended
        """Recorded in each segment's head, and by the record that ended the stream."""
        # After a disk error the end of the file is unknown: no record may be written there.
        self._unsure = False

    def write(self, group: Group, *, segment_bytes: int) -> None:
        """Store the records, with one sync. A segment of this many bytes takes no more of them."""
        segment = self._active(segment_bytes)
        try:
            self._files.append(segment.path, segment.size_bytes, b"".join(group.frames))
        except OSError:
            self._unsure = True
            with suppress(OSError):
                # Frees the space that the part of it took.
                self._files.truncate(segment.path, segment.size_bytes)
            raise
        for frame in group.frames:
            place = locate(frame, 0)
            segment.add(replace(place, end=segment.size_bytes + place.end))
        self._note_durable(segment)

    def remove_oldest(self) -> None:
        """Remove the oldest segment; the heads of later ones have its numbers."""
        oldest = self._kept.segments[0]
        if len(self._kept.segments) == 1:
            self._roll()
        self._files.remove(oldest.path)
        self._kept.segments = self._kept.segments[1:]

    def _active(self, segment_bytes: int) -> Segment:
        """The segment that takes the next record."""
        segments = self._kept.segments
        if not segments or self._unsure or segments[-1].size_bytes >= segment_bytes:
            self._roll()
        return self._kept.segments[-1]

    def _roll(self) -> None:
        """Begin a segment; it takes the place of one without records."""
        kept = self._kept
        self.producers.forget_silent(to_us(self._clock.now()))
        schema = kept.schema.serialize().to_pybytes()
        head = Head(kept.next_record, kept.next_row, schema, self.producers, self.ended)
        content = head.pack()
        path = segment_path(self._directory, head.first_record)
        # Until it is known whether that file exists, nothing may be added to the segment before it.
        self._unsure = True
        self._files.create(path, content)
        segment = Segment(path, schema, head.first_record, head.first_row, len(content))
        kept.segments = [s for s in kept.segments if s.ends] + [segment]
        self._unsure = False

    def _note_durable(self, segment: Segment) -> None:
        # The mark only sharpens what recovery can tell: the records themselves are durable already.
        with suppress(OSError):
            self._files.note(self._directory / MARK_NAME, pack_mark(segment))
