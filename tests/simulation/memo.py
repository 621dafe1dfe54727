"""Tables that were computed once, by what they were computed from: for all worlds, and all processes of a run.

To run a stage in DuckDB takes much longer than to look up what it gave. Whether it was looked up shows neither in the
table nor in the time that it takes: that is virtual.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

MOST_SHARED = 50_000
"""Files of a directory; a run of days must not fill a disk."""

Views = Mapping[str, pa.Table]


class Memo:
    """Answers of `compute(sql, views)`.

    Args:
        compute: Its answer depends on the statement and the rows alone.
        shared: A directory in which the processes of a run keep what they have computed; None: there is none.
    """

    def __init__(self, compute: Callable[[str, Views], pa.Table], shared: Path | None = None) -> None:
        self.runs = 0
        self.computed = 0
        self._compute = compute
        self._shared = shared
        self._has_room = shared is not None and sum(1 for _ in shared.iterdir()) < MOST_SHARED
        self._known: dict[str, pa.Table] = {}
        self._new: dict[str, bytes] = {}

    def output(self, sql: str, views: Views) -> pa.Table:
        """The rows that the statement gives over these views."""
        key = _digest(sql, views)
        self.runs += 1
        found = self._known.get(key)
        if found is None:
            data = self._shared_by_another(key)
            if data is None:
                self.computed += 1
                data = _packed(self._compute(sql, views))
                if self._has_room:
                    self._new[key] = data
            # Also what was computed here: it is the same then wherever it comes from, byte for byte.
            found = self._known[key] = pa.ipc.open_stream(data).read_all()
        return found

    def share(self) -> None:
        """Hand what is new to other processes: no world runs now, in which no file can be written."""
        new, self._new = self._new, {}
        for key, data in new.items():
            assert self._shared is not None
            temporary = self._shared / f"{key}.{os.getpid()}"
            temporary.write_bytes(data)
            temporary.replace(self._shared / key)

    def _shared_by_another(self, key: str) -> bytes | None:
        if self._shared is None:
            return None
        try:
            return (self._shared / key).read_bytes()
        except FileNotFoundError:
            return None


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _digest(sql: str, views: Views) -> str:
    digest = hashlib.blake2b(sql.encode(), digest_size=16)
    for view, table in sorted(views.items()):
        digest.update(f"{view}{table.num_rows}".encode())
        digest.update(table.schema.serialize())
        for column in table.combine_chunks().columns:
            for chunk in column.chunks:
                digest.update(b"%d" % chunk.offset)
                for buffer in chunk.buffers():
                    digest.update(buffer if buffer is not None else b"-")
    return digest.hexdigest()
