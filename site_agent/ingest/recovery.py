"""What a push log finds on disk when it is opened.

A tail that was never acknowledged is cut off; anything else that is missing or wrong is damage, and is refused. The
**mark** tells the two apart: after each sync it notes how far the last segment is durable. It is not synced itself, so
it may be too low after a power loss, never too high.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from site_agent.ingest.files import LogFiles
from site_agent.ingest.frames import FrameKind
from site_agent.ingest.producers import Producers
from site_agent.ingest.segment import SUFFIX, Opened, Segment, damaged, open_segment

MARK_NAME = "durable.mark"
_MARK = struct.Struct("<QQ")
_CRC = struct.Struct("<I")


@dataclass(slots=True)
class Recovered:
    segments: list[Segment] = field(default_factory=list)
    producers: Producers = field(default_factory=Producers)
    ended: bool = False


def pack_mark(segment: Segment) -> bytes:
    """The mark of a segment that is wholly durable."""
    noted = _MARK.pack(segment.first_record, segment.size_bytes)
    return noted + _CRC.pack(zlib.crc32(noted))


def recover(directory: Path, files: LogFiles) -> Recovered:
    """Recover the log's segments; all of them are durable on return.

    Raises:
        CorruptLogError: acknowledged records are missing or damaged.
        OSError: the disk cannot be read or written.
    """
    paths = sorted(directory.glob(f"*{SUFFIX}"))
    opened = [open_segment(path, before=int(following.stem)) for path, following in pairwise(paths)]
    opened += [open_segment(path, before=None) for path in paths[-1:]]
    _check_gapless(opened)
    _check_marked(directory, opened)
    if not opened:
        return Recovered()
    last = opened[-1].segment
    # Its last records may have been written and not synced: they count from now on, so they must be durable.
    files.truncate(last.path, last.size_bytes)
    return Recovered([o.segment for o in opened], _producers(opened), _ended(opened))


def _check_gapless(opened: Sequence[Opened]) -> None:
    for one, following in pairwise(opened):
        wanted = following.segment.first_record
        if one.segment.next_record != wanted:
            what = f"records {one.segment.next_record} to {wanted - 1} are missing or damaged"
            raise damaged(one.segment.path, what)


def _check_marked(directory: Path, opened: Sequence[Opened]) -> None:
    mark = _read_mark(directory / MARK_NAME)
    if mark is None:
        return
    first_record, size_bytes = mark
    if not opened:
        raise damaged(directory, "its segments are gone")
    last = opened[-1].segment
    if first_record > last.first_record:
        raise damaged(directory, f"the segment from record {first_record} on is gone")
    if first_record == last.first_record and size_bytes > last.size_bytes:
        raise damaged(last.path, f"{size_bytes} bytes were durable, of which {last.size_bytes} can be read")


def _read_mark(path: Path) -> tuple[int, int] | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) != _MARK.size + _CRC.size or _CRC.unpack_from(data, _MARK.size)[0] != zlib.crc32(data[: _MARK.size]):
        return None
    first_record, size_bytes = _MARK.unpack_from(data)
    return first_record, size_bytes


def _producers(opened: Sequence[Opened]) -> Producers:
    """The producers of the last head, and those of the records after it."""
    last = opened[-1]
    producers = last.head.producers
    producers.note_all((r.producer, r.sequence, r.at_us) for r in last.records if r.kind is FrameKind.ROWS)
    return producers


def _ended(opened: Sequence[Opened]) -> bool:
    last = opened[-1]
    return last.head.ended or any(r.kind is FrameKind.END for r in last.records)
