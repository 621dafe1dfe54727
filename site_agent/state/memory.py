"""The memory that a site's merges may take for rows of open windows."""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

STATE_BYTES = 256 * 1024 * 1024


class Cached(Protocol):
    """Rows in memory, of which some are on disk as well."""

    @property
    def memory_bytes(self) -> int:
        """What its rows take in memory."""
        ...

    @property
    def spare_bytes(self) -> int:
        """What of it is on disk as well."""
        ...

    def forget(self) -> None:
        """Keep in memory only what is not on disk."""
        ...


class StateMemory:
    """Shared by the merges of an agent; belongs to one event loop.

    Rows that a checkpoint has stored are kept in memory as long as there is room, because small windows close sooner
    that way. When there is no room, those of the merge that has most of them are forgotten: they are read again when
    their window closes.
    """

    def __init__(self, limit_bytes: int = STATE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._held: WeakSet[Cached] = WeakSet()

    @property
    def used_bytes(self) -> int:
        return sum(held.memory_bytes for held in self._held)

    def hold(self, held: Cached) -> None:
        """Count these rows from now on, as long as they exist."""
        self._held.add(held)

    def release(self, held: Cached) -> None:
        """Count them no more."""
        self._held.discard(held)

    def make_room(self) -> bool:
        """Have rows forgotten until the limit holds; False: what is left above it is not on disk yet."""
        while self.used_bytes > self.limit_bytes:
            most = max(self._held, key=lambda held: held.spare_bytes)
            if not most.spare_bytes:
                return False
            most.forget()
        return True
