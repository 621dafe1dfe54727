"""Rows sorted by event time in Parquet parts, and an index that finds rows by time and times by row."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from site_agent.base.durable import write_atomically
from site_agent.base.errors import ConnectorError
from site_agent.engine import MALFORMED_NAME, MalformedFile, ParquetSlice

INDEX_NAME = "index.json"

_PART = re.compile(r"part-(\d+)-.*?(?:-c|\.c)(\d+)")
_BEFORE_ALL = -(2**63)
"""Stands for rows without an event time: they come first."""


@dataclass(frozen=True, slots=True)
class Part:
    """One Parquet file; times in microseconds, of the first and the last row."""

    name: str
    rows: int
    size_bytes: int
    first_us: int
    last_us: int


def write_index(directory: Path, event_time: str) -> None:
    """Index the Parquet parts of a directory."""
    parts = [_part(path, event_time) for path in sorted(directory.glob("*.parquet"), key=_order)]
    content = {
        "event_time": event_time,
        "parts": [asdict(p) for p in parts if p.rows],
        "rows_malformed": _lines(directory / MALFORMED_NAME),
    }
    write_atomically(directory / INDEX_NAME, json.dumps(content).encode())


class Timeline:
    """The rows of a prepared directory, numbered from 0."""

    def __init__(self, directory: Path) -> None:
        """Raises ConnectorError when the directory has no index."""
        try:
            index = json.loads((directory / INDEX_NAME).read_bytes())
        except OSError as error:
            raise ConnectorError(f"the prepared files in {directory} cannot be read: {error.strerror}") from error
        self._directory = directory
        self._event_time = str(index["event_time"])
        self._parts: Sequence[Part] = [Part(**p) for p in index["parts"]]
        self._ends = list(accumulate(p.rows for p in self._parts))
        rows_malformed = int(index["rows_malformed"])
        self.malformed = MalformedFile(str(directory / MALFORMED_NAME), rows_malformed) if rows_malformed else None
        """Rows of the files that have no place among the others."""

    @property
    def rows(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def row_bytes(self) -> int:
        """Average size of a row on disk, at least 1."""
        return max(1, sum(p.size_bytes for p in self._parts) // max(1, self.rows))

    @property
    def first_time_us(self) -> int | None:
        """The first event time there is."""
        for part in self._parts:
            if part.last_us != _BEFORE_ALL:
                times = self._times(part)
                return int(times[np.searchsorted(times, _BEFORE_ALL, side="right")])
        return None

    def rows_by(self, time_us: int) -> int:
        """How many rows have an event time at or before `time_us`, or none."""
        number = bisect_right([p.last_us for p in self._parts], time_us)
        before = self._ends[number - 1] if number else 0
        if number == len(self._parts) or self._parts[number].first_us > time_us:
            return before
        return before + int(np.searchsorted(self._times(self._parts[number]), time_us, side="right"))

    def time_us(self, row: int) -> int | None:
        """A row's event time; None when it has none, or there is no such row."""
        if not 0 <= row < self.rows:
            return None
        number = bisect_right(self._ends, row)
        part = self._parts[number]
        time_us = int(self._times(part)[row - (self._ends[number] - part.rows)])
        return None if time_us == _BEFORE_ALL else time_us

    def slices(self, start: int, end: int) -> tuple[ParquetSlice, ...]:
        """Where rows [start, end) are."""
        found = []
        for part, part_end in zip(self._parts, self._ends, strict=True):
            part_start = part_end - part.rows
            first, last = max(start, part_start), min(end, part_end)
            if first < last:
                found.append(ParquetSlice(str(self._directory / part.name), first - part_start, last - part_start))
        return tuple(found)

    def _times(self, part: Part) -> npt.NDArray[np.int64]:
        return _event_times(self._directory / part.name, self._event_time)


def _lines(path: Path) -> int:
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _part(path: Path, event_time: str) -> Part:
    times = _event_times(path, event_time)
    first_us, last_us = (int(times[0]), int(times[-1])) if len(times) else (_BEFORE_ALL, _BEFORE_ALL)
    return Part(path.name, len(times), path.stat().st_size, first_us, last_us)


# A replay looks at the part it is in, poll after poll.
@lru_cache(maxsize=16)
def _event_times(path: Path, event_time: str) -> npt.NDArray[np.int64]:
    column = pq.read_table(path, columns=[event_time], use_threads=False).column(0)
    micros = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    times: npt.NDArray[np.int64] = pc.fill_null(micros, _BEFORE_ALL).to_numpy()
    return times


def _order(path: Path) -> tuple[int, int, str]:
    found = _PART.match(path.name)
    return (int(found.group(1)), int(found.group(2)), path.name) if found else (0, 0, path.name)
