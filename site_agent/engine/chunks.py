"""Output rows of a job that may not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self, TypeVar

import pyarrow as pa

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

CHUNK_BYTES = 16 * 1024 * 1024
"""The size of a chunk in memory. Processes that pass a result on, or read it, hold one chunk at a time."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Rows in order, about `CHUNK_BYTES` at a time; the owner iterates them once and then closes them."""

    rows: int
    size_bytes: int
    """The approximate size of all rows in memory."""
    tables: Iterator[pa.Table]
    _closed: Callable[[], None] = field(default=lambda: None)

    @staticmethod
    def of(table: pa.Table) -> Chunks:
        """Chunks of a table in memory or of a mapped one."""
        return Chunks(table.num_rows, table.nbytes, slices(table))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the rows: they are no longer needed."""
        self._closed()


def slices(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in order, about `CHUNK_BYTES` at a time; an empty table has no slices."""
    rows = max(1, table.num_rows * CHUNK_BYTES // max(CHUNK_BYTES, table.nbytes))
    yield from (table.slice(first, rows) for first in range(0, table.num_rows, rows))


def gathered(parts: Iterable[Rows]) -> Iterator[list[Rows]]:
    """As many at a time, in order, as make a chunk."""
    held: list[Rows] = []
    held_bytes = 0
    for part in parts:
        if held and held_bytes + part.nbytes > CHUNK_BYTES:
            yield held
            held, held_bytes = [], 0
        held.append(part)
        held_bytes += part.nbytes
    if held:
        yield held
