"""CSV files in a form for Spark's reader, which reads one record from each line.

A file whose lines are its records is read where it is. A file with line breaks within quotes, or with broken records,
is copied: in the copy a control character that the text does not contain ends each record, so that the remaining line
breaks are text, and broken records are left out and set aside.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from site_agent.base.errors import EngineError
from site_agent.engine import MalformedRow
from site_agent.engine.scans.csv_records import Broken, Chunk, Dialect, Positions, chunks, has_mark, open_text
from site_agent.engine.scans.parts import Origin

_RECORD_ENDS = "\x1e\x1f\x1d\x1c\x01\x02\x03\x04\x05\x06\x07\x08"
_SHOWN_BYTES = 64 * 1024
"""The most bytes of a broken record that are kept with the reason; its place leads to the rest."""
_ONLY_SPARK_DECOMPRESSES = frozenset({".deflate", ".snappy", ".lz4", ".zst"})
_UNREADABLE = (OSError, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class ReadableCsv:
    """A file for Spark's reader."""

    path: str
    record_end: str = ""
    """The character that ends each record; empty: a line break does."""
    broken: tuple[MalformedRow, ...] = ()
    """Records of the original that the copy lacks."""


def readable(path: str, dialect: Dialect, copy: Path, origin: Origin) -> ReadableCsv:
    """The file itself, or a copy of it.

    Args:
        path: The file; `.gz` and `.bz2` are decompressed.
        copy: The path for a copy; the caller removes it.
        origin: The user's file.

    Raises:
        EngineError: the text contains every character that could end its records.
        OSError: the copy cannot be written.
    """
    if _lines_are_records(path, dialect):
        return ReadableCsv(path)
    used = {dialect.separator, dialect.quote, dialect.escape}
    for record_end in _RECORD_ENDS:
        if record_end in used:
            continue
        with open_text(path) as source, copy.open("w+b") as target:
            writer = _Writer(target, record_end.encode(), origin)
            if all(writer.write(chunk) for chunk in chunks(source, dialect)):
                return ReadableCsv(str(copy), record_end, tuple(writer.broken))
    raise EngineError(
        f"{origin.path} has line breaks within quotes, and all control characters that could end its records",
        hint="remove the control characters U+0001 to U+0008 and U+001C to U+001F from it",
    )


def _lines_are_records(path: str, dialect: Dialect) -> bool:
    """True also for files that cannot be read here: Spark's reader then reports the error."""
    suffix = Path(path).suffix.lower()
    try:
        if suffix in _ONLY_SPARK_DECOMPRESSES:
            return True
        with open_text(path) as source:
            if not has_mark(source, dialect.quote.encode()):
                return True
            source.seek(0)
            return all(chunk.plain for chunk in chunks(source, dialect))
    except _UNREADABLE:
        return True


class _Writer:
    """Writes chunks of a text with another end of each record, and without broken records."""

    def __init__(self, target: BinaryIO, record_end: bytes, origin: Origin) -> None:
        self.broken: list[MalformedRow] = []
        self._target = target
        self._record_end = record_end
        self._origin = origin
        self._record_at = 0
        """The position in the target at which the unfinished record begins."""

    def write(self, chunk: Chunk) -> bool:
        """Write a chunk. Returns False when the text contains the character that is to end its records."""
        if self._record_end in chunk.data:
            return False
        ends = chunk.next_starts()
        cursor = chunk.start
        for broken in chunk.broken:
            if broken.start >= chunk.start:
                self._target.write(self._converted(chunk, ends, cursor, broken.start))
                self._record_at, cursor = self._target.tell(), broken.start
            self._target.write(chunk.data[cursor - chunk.start : broken.end - chunk.start])
            self._set_aside(broken)
            cursor = broken.end
        self._target.write(self._converted(chunk, ends, cursor, chunk.start + len(chunk.data)))
        if len(ends):
            self._record_at = self._target.tell() - (chunk.start + len(chunk.data) - int(ends[-1]))
        return True

    def _set_aside(self, broken: Broken) -> None:
        """Remove the broken record from the target, and keep it with its reason."""
        self._target.seek(self._record_at)
        text = self._target.read(_SHOWN_BYTES).decode(errors="replace")
        self._target.seek(self._record_at)
        self._target.truncate()
        place = f"record at byte {broken.start + self._origin.shift_bytes}"
        self.broken.append(MalformedRow(self._origin.path, f"{place}: {broken.reason}", text))

    def _converted(self, chunk: Chunk, ends: Positions, start: int, end: int) -> bytes:
        """The bytes [start, end), with each record ended by the new character."""
        first, last = np.searchsorted(chunk.breaks, [start, end])
        text = np.frombuffer(chunk.data, np.uint8)[start - chunk.start : end - chunk.start].copy()
        breaks, behind = chunk.breaks[first:last] - start, ends[first:last] - start
        text[breaks] = self._record_end[0]
        return np.delete(text, breaks[behind - breaks == 2] + 1).tobytes()
