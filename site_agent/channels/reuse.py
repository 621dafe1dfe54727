"""Rows that this site made or received for one query, and may need again for another: epochs by what is in them.

An epoch's digest is that of its schema and payload, so nothing here can be out of date: other rows have another digest.
What is here is a second name of the channel's file, which stays when the channel goes. It is as old as the process, and
may be gone at any time.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from site_agent.base.errors import CorruptEpochError
from site_agent.channels.codec import EncodedRows
from site_agent.channels.epoch_file import read_epoch
from site_agent.channels.log import ChannelLog
from site_agent.channels.recovery import epoch_path

DIRECTORY_NAME = "reuse"
BUDGET_BYTES = 512 * 1024 * 1024
MOST_FILES = 10_000
"""Beyond these, what was not used for longest goes."""
LEAST_BYTES = 64 * 1024
"""The payload of an epoch that is worth a question to another site, whose answer takes a round trip."""


def digest_of(encoded: EncodedRows) -> bytes:
    """Return what tells these rows from all others."""
    found = hashlib.sha256(len(encoded.schema).to_bytes(8))
    found.update(encoded.schema)
    found.update(encoded.payload)
    return found.digest()


class ReusableRows:
    """Finds epochs by their digests. Safe to use from several threads; of use to one process at a time."""

    def __init__(self, directory: Path, budget_bytes: int = BUDGET_BYTES) -> None:
        """Empty the directory; it is made when something is put there."""
        self._directory = directory
        self._budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._sizes: OrderedDict[bytes, int] = OrderedDict()
        """In the order of their last use."""
        self._size_bytes = 0
        if directory.is_dir():
            for leftover in directory.iterdir():
                leftover.unlink(missing_ok=True)

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return self._size_bytes

    def __contains__(self, digest: bytes) -> bool:
        with self._lock:
            return digest in self._sizes

    def put(self, log: ChannelLog, epoch: int, digest: bytes) -> None:
        """Keep an epoch of a channel, whose digest this is, unless the disk refuses."""
        with self._lock, suppress(OSError):
            if digest in self._sizes:
                return
            self._directory.mkdir(exist_ok=True)
            path = self._path(digest)
            path.unlink(missing_ok=True)
            os.link(epoch_path(log.directory, epoch), path)
            self._sizes[digest] = path.stat().st_size
            self._size_bytes += self._sizes[digest]
            while self._size_bytes > self._budget_bytes or len(self._sizes) > MOST_FILES:
                self._drop(next(iter(self._sizes)))

    def get(self, digest: bytes) -> EncodedRows | None:
        """Return the rows; None: they are not here, or damaged."""
        with self._lock:
            if digest not in self._sizes:
                return None
            self._sizes.move_to_end(digest)
        with suppress(CorruptEpochError):
            _, encoded = read_epoch(self._path(digest))
            if encoded is not None and digest_of(encoded) == digest:
                return encoded
        with self._lock:
            if digest in self._sizes:
                self._drop(digest)
        return None

    def _drop(self, digest: bytes) -> None:
        self._size_bytes -= self._sizes.pop(digest)
        self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: bytes) -> Path:
        return self._directory / digest.hex()
