"""The boundaries of records in a CSV text, by RFC 4180.

A quote that begins a field opens a quoted value; separators and line breaks in it are text until a quote closes it, and
an escaped quote (doubled, or behind the escape character of the dialect) is text, too. Any other quote is text. A
record ends with a line break outside of quotes: LF, CRLF or CR.

Broken records have text behind a closing quote, no closing quote at all, or too many bytes. They end by the same rules,
so the code that cuts a text and the code that reads it find the same records.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from site_agent.base.errors import EngineError

CHUNK_BYTES = 4 * 1024 * 1024
MAX_RECORD_BYTES = 16 * 1024 * 1024
_HELD_BACK_BYTES = 4
"""The length of the longest token."""
_TEXT_BEHIND = "text follows the quote that closes a value"
_LF, _CR = b"\n\r"

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The characters that give a CSV text its structure."""

    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    """Within a quoted value, a quote that follows it is text; equal to `quote` when quotes are doubled."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Dialect:
        """The dialect in the options of Spark's reader."""
        quote = options.get("quote", '"')
        return cls(options.get("sep", ","), quote, options.get("escape", quote))


@dataclass(frozen=True, slots=True)
class Broken:
    """A record [start, end) that cannot be read."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive bytes of a text with the record boundaries in them. Positions count from the text's first byte."""

    start: int
    data: bytes
    breaks: Positions
    """The positions of line breaks that end a record."""
    quoted_breaks: bool
    """True when a quoted value has a line break in these bytes."""
    broken: tuple[Broken, ...] = ()
    """Broken records that end here; they may have begun in a chunk before."""

    @property
    def plain(self) -> bool:
        """True when each line of these bytes is a record that can be read."""
        return not self.quoted_breaks and not self.broken

    def next_starts(self) -> Positions:
        """The position behind each line break, where the next record begins."""
        return _behind(np.frombuffer(self.data, np.uint8), self.breaks - self.start) + self.start


def open_text(path: str) -> BinaryIO:
    """The bytes of a file, decompressed if its name says that they are compressed."""
    match Path(path).suffix.lower():
        case ".gz":
            return cast("BinaryIO", gzip.open(path))
        case ".bz2":
            return cast("BinaryIO", bz2.open(path))
        case _:
            return Path(path).open("rb")


def chunks(source: BinaryIO, dialect: Dialect, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """A text from its first byte to its last, in memory of a few chunks however long its records are.

    Raises:
        OSError: the text cannot be read.
    """
    scanner = _Scanner(dialect)
    held, start = b"", 0
    while True:
        read = source.read(chunk_bytes)
        data = held + read
        taken = scanner.take(data, _safe_size(data) if read else len(data), ended=not read)
        if taken or not read:
            yield scanner.chunk(start, data[:taken])
        held, start = data[taken:], start + taken
        if not read and not held:
            return


def _safe_size(data: bytes) -> int:
    """The number of bytes that can be scanned before more is read: no token crosses a line feed."""
    return data.rfind(b"\n") + 1 or max(0, len(data) - _HELD_BACK_BYTES)


def first_record(source: BinaryIO, dialect: Dialect, *, white: bytes) -> bytes:
    """The text up to the end of the first record that is not only white space.

    Raises:
        EngineError: it has no end.
        OSError: the text cannot be read.
    """
    read, record_start = b"", 0
    for chunk in chunks(source, dialect, chunk_bytes=64 * 1024):
        read += chunk.data
        for end in chunk.next_starts().tolist():
            if read[record_start:end].strip(white):
                return read[:end]
            record_start = end
        if len(read) - record_start > MAX_RECORD_BYTES:
            raise EngineError(f"the header of a CSV file has more than {MAX_RECORD_BYTES} bytes")
    return read


def record_starts(path: str, dialect: Dialect, wanted: Sequence[int]) -> Sequence[int]:
    """For each wanted position (ascending) the next one at which a record begins behind a line feed, or the text's end.

    In a text without quotes each line is a record: the wanted positions are returned as they are.

    Raises:
        OSError: the file cannot be read.
    """
    with Path(path).open("rb") as source:
        if not has_mark(source, dialect.quote.encode()):
            return wanted
        source.seek(0)
        found: list[int] = []
        end = 0
        for chunk in chunks(source, dialect):
            starts = chunk.next_starts()
            starts = starts[np.frombuffer(chunk.data, np.uint8)[starts - chunk.start - 1] == _LF]
            places = np.searchsorted(starts, wanted[len(found) :])
            found.extend(int(starts[place]) for place in places if place < len(starts))
            end = chunk.start + len(chunk.data)
            if len(found) == len(wanted):
                break
    return [*found, *[end] * (len(wanted) - len(found))]


def has_mark(source: BinaryIO, mark: bytes) -> bool:
    """True when a byte occurs in the rest of a text. Much cheaper than finding records."""
    while block := source.read(1024 * 1024):
        if mark in block:
            return True
    return False


class _State(Enum):
    FIELD_START = auto()
    UNQUOTED = auto()
    QUOTED = auto()
    CLOSED = auto()
    """Behind a quote that closes the value, unless another one follows."""


@dataclass(slots=True)
class _Scanner:
    """Scans a text once. A few numpy passes find that most chunks are regular; others are scanned token by token."""

    dialect: Dialect
    position: int = 0
    """Bytes taken so far."""
    state: _State = _State.FIELD_START
    _record_start: int = 0
    _reason: str = ""
    _tokens: re.Pattern[bytes] = field(init=False)
    _sound_record: re.Pattern[bytes] = field(init=False)
    _quote: bytes = field(init=False)
    _separator: bytes = field(init=False)
    _escape: bytes = field(init=False)
    _token_end: int = 0
    """The end of the last token that counted."""
    _escaped: int = -1
    """Position of a byte that the escape character makes text."""
    _breaks: list[int] | Positions = field(default_factory=list)
    _quoted_breaks: bool = False
    _broken: list[Broken] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._quote, self._separator = self.dialect.quote.encode(), self.dialect.separator.encode()
        self._escape = self.dialect.escape.encode()
        marks = {self._quote, self._separator, self._escape}
        self._tokens = re.compile(b"\r\n|[\r\n]|" + b"|".join(re.escape(mark) for mark in sorted(marks)))
        self._sound_record = _sound_record(self._quote, self._separator, self._escape)

    def take(self, data: bytes, size: int, *, ended: bool) -> int:
        """Scan `data`, of which the first `size` bytes are safe to scan.

        Returns:
            The number of bytes taken, up to the end of a record; a part only of a record that is longer than `size`.
        """
        self._breaks, self._quoted_breaks, self._broken = [], False, []
        begin = len(codecs.BOM_UTF8) if self.position == 0 and data.startswith(codecs.BOM_UTF8) else 0
        self._token_end, size = max(self._token_end, begin), max(size, begin)
        taken = self._take_regular(data, begin, size)
        if not taken:
            taken = self._take_tokens(data, begin, size, ended=ended)
        self.position += taken
        if ended and taken == len(data) and self.position > self._record_start:
            self._end_text()
        return taken

    def chunk(self, start: int, data: bytes) -> Chunk:
        """The chunk that the last call of `take` scanned."""
        breaks = np.asarray(self._breaks, np.int64)
        return Chunk(start, data, breaks, self._quoted_breaks, tuple(self._broken))

    def _take_regular(self, data: bytes, begin: int, size: int) -> int:
        """Take whole records in which each quote opens, closes or doubles. Returns the bytes taken, 0 for none."""
        if self.position != self._record_start or len(self._separator) > 1:
            return 0
        if self._escape != self._quote and self._escape in data:
            return 0
        found = np.frombuffer(data, np.uint8, size - begin, begin)
        breaks = _line_breaks(found)
        quotes = np.flatnonzero(found == self._quote[0]) if self._quote in data else np.empty(0, np.int64)
        quoted = np.searchsorted(quotes, breaks) % 2 == 1
        records = breaks[~quoted]
        if not len(records) or (records[-1] == len(found) - 1 and found[-1] == _CR):
            return 0
        ends = _behind(found, records)
        if int(np.diff(ends, prepend=0).max()) > MAX_RECORD_BYTES:
            return 0
        if not self._alternate(found, quotes[: np.searchsorted(quotes, ends[-1])]):
            return 0
        self._quoted_breaks = bool(quoted[: np.searchsorted(breaks, ends[-1])].any())
        self._breaks = records + (self.position + begin)
        self._begin_record(self.position + begin + int(ends[-1]))
        return begin + int(ends[-1])

    def _alternate(self, found: Bytes, quotes: Positions) -> bool:
        """True when each opening quote follows a boundary or quote, and each closing one precedes such."""
        if not len(quotes):
            return True
        quote = self._quote[0]
        bounds = np.array([self._separator[0], _LF, _CR, quote], np.uint8)
        opening, closing = quotes[::2], quotes[1::2]
        before, after = found[opening[opening > 0] - 1], found[closing + 1]
        if self._escape != self._quote and bool((before == quote).any()):
            return False
        return bool(np.isin(before, bounds).all() and np.isin(after, bounds).all())

    def _take_tokens(self, data: bytes, begin: int, size: int, *, ended: bool) -> int:
        """Take records one by one, those that are not sound token by token; returns the bytes taken."""
        end = begin
        while end < size:
            at_record = self._record_start == self.position + end or 0 < begin == end
            if at_record and (sound := self._sound_record.match(data, end, size)):
                self._take_sound(sound)
                end = sound.end()
                continue
            token = self._tokens.search(data, end)
            if token is None or token.start() >= size:
                end = size
            else:
                end = token.end()
                self._step(token.group(), self.position + token.start())
        whole = self._record_start - self.position
        if ended or whole <= 0:
            return end
        # The unfinished record is scanned again, together with the bytes that follow.
        self._begin_record(self._record_start)
        return whole

    def _take_sound(self, sound: re.Match[bytes]) -> None:
        cast("list[int]", self._breaks).append(self.position + sound.start(1))
        self._quoted_breaks = self._quoted_breaks or len(sound.group().splitlines()) > 1
        self._end_record(self.position + sound.start(1), self.position + sound.end())

    def _step(self, token: bytes, at: int) -> None:
        if at == self._escaped and token in (self._quote, self._escape):
            return
        adjacent = at == self._token_end
        if self.state is _State.QUOTED:
            self._step_quoted(token, at)
            return
        if self.state is _State.CLOSED:
            if adjacent and token == self._quote == self._escape:
                self.state, self._token_end = _State.QUOTED, at + 1
                return
            if not adjacent or token in (self._quote, self._escape):
                self._reason = self._reason or _TEXT_BEHIND
                self.state = _State.UNQUOTED
        if token == self._separator:
            self.state, self._token_end = _State.FIELD_START, at + len(token)
        elif token in (b"\n", b"\r", b"\r\n"):
            cast("list[int]", self._breaks).append(at)
            self._end_record(at, at + len(token))
        elif token == self._quote and self.state is _State.FIELD_START and adjacent:
            self.state = _State.QUOTED
        else:
            self.state = _State.UNQUOTED

    def _step_quoted(self, token: bytes, at: int) -> None:
        if token == self._quote:
            self.state, self._token_end = _State.CLOSED, at + 1
        elif token == self._escape:
            self._escaped = at + 1
        elif token in (b"\n", b"\r", b"\r\n"):
            self._quoted_breaks = True

    def _end_text(self) -> None:
        if self.state is _State.QUOTED:
            self._reason = self._reason or "a quoted value is not closed by the end of the file"
        elif self.state is _State.CLOSED and self._token_end < self.position:
            self._reason = self._reason or _TEXT_BEHIND
        self._end_record(self.position, self.position)

    def _end_record(self, end: int, next_start: int) -> None:
        size_bytes = end - self._record_start
        if size_bytes > MAX_RECORD_BYTES:
            too_long = f"the record has {size_bytes} bytes, more than {MAX_RECORD_BYTES}"
            self._reason = f"{self._reason}; {too_long}" if self._reason else too_long
        if self._reason:
            self._broken.append(Broken(self._record_start, end, self._reason))
        self._begin_record(next_start)

    def _begin_record(self, start: int) -> None:
        self.state, self._reason = _State.FIELD_START, ""
        self._record_start = self._token_end = start


def _sound_record(quote: bytes, separator: bytes, escape: bytes) -> re.Pattern[bytes]:
    """A record that can be read, with its line feed; group 1 is the line break."""
    q, s, e = re.escape(quote), re.escape(separator), re.escape(escape)
    inner = rb"[^%b]*+(?:%b%b[^%b]*+)*+" % (q, q, q, q) if quote == escape else rb"(?:[^%b%b]++|%b.)*+" % (q, e, e)
    plain = rb"(?!%b)(?:(?!%b)[^\r\n])*+" % (q, s) if len(separator) > 1 else rb"(?!%b)[^%b\r\n]*+" % (q, s)
    value = rb"(?:%b%b%b|%b)" % (q, inner, q, plain)
    return re.compile(rb"%b(?:%b%b)*+(\r?\n)" % (value, s, value), re.DOTALL)


def _line_breaks(found: Bytes) -> Positions:
    """The positions of line breaks; CRLF is one."""
    feeds = np.flatnonzero(found == _LF)
    returns = np.flatnonzero(found == _CR)
    if not len(returns):
        return feeds
    alone = feeds[(feeds == 0) | (found[feeds - 1] != _CR)]
    return np.sort(np.concatenate([returns, alone]))


def _behind(found: Bytes, breaks: Positions) -> Positions:
    """The position behind each of these line breaks."""
    after = np.minimum(breaks + 1, len(found) - 1)
    crlf = (found[breaks] == _CR) & (found[after] == _LF) & (after > breaks)
    return cast("Positions", breaks + 1 + crlf)
