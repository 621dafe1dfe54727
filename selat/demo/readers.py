"""Reads results, in a thread for each query, so that all are read as they come."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import selat
from selat.demo.oracle import Row, rows_of


@dataclass(slots=True)
class Reading:
    """What a reader has read; written by its thread alone."""

    rows: list[Row] = field(default_factory=list)
    first_at: float | None = None
    """Monotonic time of the first row."""
    ended_at: float | None = None
    error: str = ""


class Reader:
    """Reads a query's results to their end."""

    def __init__(self, name: str, query: selat.Query) -> None:
        self.name = name
        self.query = query
        self.submitted_at = time.monotonic()
        self.reading = Reading()
        self._results = query.results()
        self._thread = threading.Thread(target=self._read, name=f"results-{name}", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stop reading."""
        self._results.close()
        self._thread.join()

    def _read(self) -> None:
        reading = self.reading
        try:
            for batch in self._results:
                if batch.batch.num_rows and reading.first_at is None:
                    reading.first_at = time.monotonic()
                reading.rows += rows_of(batch.batch)
        except selat.SelatError as error:
            reading.error = error.message
        reading.ended_at = time.monotonic()
