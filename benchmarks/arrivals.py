"""Rows that are born now: a Parquet file a second in a directory for each site, complete when it has its name."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PAGES = 100
TRACE_CHARACTERS = 120
"""Of the column that no query here reads: half a byte of chance each."""


class Arrivals:
    """Writes every second what was born in it. Use it as a thread: `start`, `join`."""

    def __init__(self, directories: Sequence[Path], rows_per_s: int, seconds: int) -> None:
        self._directories = directories
        self._rows_per_s = rows_per_s
        self._seconds = seconds
        rng = np.random.default_rng(7)
        text = rng.bytes(rows_per_s * TRACE_CHARACTERS // 2).hex()
        offsets = pa.array(range(0, len(text) + 1, TRACE_CHARACTERS), pa.int32()).buffers()[1]
        self._traces = pa.StringArray.from_buffers(rows_per_s, offsets, pa.py_buffer(text.encode()))
        self._pages = pa.array([f"page-{n}" for n in rng.zipf(1.3, rows_per_s) % PAGES])
        self._ms = pa.array(rng.integers(5, 500, rows_per_s), pa.int32())
        self._first_s = int(time.time()) + 1
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def start_s(self) -> int:
        """Event time and wall time of the first row."""
        return self._first_s

    @property
    def end_s(self) -> int:
        return self._first_s + self._seconds

    def start(self, *, multiple_of_s: int = 1) -> None:
        """The first row is born at the next such time, so that windows of that length begin with it."""
        self._first_s = (int(time.time()) // multiple_of_s + 1) * multiple_of_s
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        for second in range(self._first_s, self.end_s):
            time.sleep(max(0.0, second + 1 - time.time()))
            table = self._table(second)
            for directory in self._directories:
                temporary = directory / f"{second}.parquet.tmp"
                pq.write_table(table, temporary, compression="zstd")
                temporary.rename(directory / f"{second}.parquet")

    def _table(self, second: int) -> pa.Table:
        times = second * 1_000_000 + np.arange(self._rows_per_s) * 1_000_000 // self._rows_per_s
        return pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                "page": self._pages,
                "ms": self._ms,
                "trace": self._traces,
            }
        )
