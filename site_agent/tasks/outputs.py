"""A cache of the outputs of tasks that read tables, by a key of what a task reads and computes.

Two tasks have one key when they run the same SQL over the same parts of unchanged files, and over equal copies of other
tables.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from site_agent.base.errors import CorruptEpochError
from site_agent.channels.codec import EncodedRows
from site_agent.channels.log import ChannelLog
from site_agent.channels.reuse import ReusableRows, digest_of
from site_agent.engine import FilesScan, Scan
from site_agent.tasks.progress import Totals
from site_agent.tasks.spec import TaskSpec

MOST = 10_000
"""The cache knows so many outputs; the oldest go."""


class GoneError(Exception):
    """Some rows of an output are not kept any more."""


@dataclass(frozen=True, slots=True)
class Output:
    """All epochs of a channel, and the counts of the task that made it."""

    digests: tuple[bytes, ...]
    totals: Totals


class Outputs:
    """The outputs of one site. `one_at_a_time` and `get` belong to an event loop; `put` and `rows` to any thread."""

    def __init__(self, rows: ReusableRows | None = None) -> None:
        """`rows` are those of the site; None: none are kept."""
        self._rows = rows
        self._known: OrderedDict[bytes, Output] = OrderedDict()
        self._busy: dict[bytes, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def one_at_a_time(self, key: bytes) -> AsyncIterator[None]:
        """Wait until no other task makes the output with that key; without a key there is nothing to wait for."""
        if not key:
            yield
            return
        lock, waiting = self._busy.get(key, (asyncio.Lock(), 0))
        self._busy[key] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            _, waiting = self._busy[key]
            self._busy[key] = lock, waiting - 1
            if waiting == 1:
                del self._busy[key]

    def get(self, key: bytes) -> Output | None:
        """Return what was made with that key, if its rows are here."""
        found, rows = self._known.get(key), self._rows
        if found is None or rows is None or not all(digest in rows for digest in found.digests):
            return None
        return found

    def rows(self, output: Output) -> Iterator[EncodedRows]:
        """Read the rows. Raises GoneError."""
        for digest in output.digests:
            encoded = self._rows.get(digest) if self._rows is not None else None
            if encoded is None:
                raise GoneError
            yield encoded

    def put(self, key: bytes, log: ChannelLog) -> None:
        """Keep all epochs of a channel as what was made with that key, unless rows were malformed or are damaged."""
        with suppress(CorruptEpochError):
            self._put(key, log)

    def _put(self, key: bytes, log: ChannelLog) -> None:
        digests, rows, manifest = [], self._rows, log.epochs.last_manifest
        totals = Totals.from_json(manifest.commit.get("totals") if manifest is not None else None)
        # Each query sets malformed rows aside for itself.
        if rows is None or totals.rows_malformed:
            return
        for epoch, digest in _digests(log):
            rows.put(log, epoch, digest)
            digests.append(digest)
        self._known[key] = Output(tuple(digests), totals)
        while len(self._known) > MOST:
            with suppress(KeyError):
                self._known.popitem(last=False)


def key_of(spec: TaskSpec, site: str, scan: Scan, copies: Sequence[ChannelLog]) -> bytes:
    """Return what is read and done, as a key; empty: it may give something else another time.

    Args:
        spec: the task.
        site: where it runs.
        scan: what it reads of its table.
        copies: the channels of the other tables that it reads, in the order of its inputs.

    Raises:
        OSError: a file is gone.
        CorruptEpochError: a copy is damaged.
    """
    if not spec.reuses or spec.functions or not isinstance(scan, FilesScan):
        return b""
    stats = [Path(path).stat() for path in scan.paths]
    files = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in stats]
    views = [
        (item.view, [digest for _, digest in _digests(log)]) for item, log in zip(spec.inputs, copies, strict=True)
    ]
    said = repr((spec.sql, spec.read_columns, site, scan, files, views))
    return hashlib.sha256(said.encode()).digest()


def _digests(log: ChannelLog) -> Iterator[tuple[int, bytes]]:
    """The epochs of a channel that have rows."""
    for epoch in range(log.next_epoch):
        _, encoded = log.epochs.read_encoded(epoch)
        if encoded is not None:
            yield epoch, digest_of(encoded)
