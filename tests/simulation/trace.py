"""What happened in a world, line by line: for people the last ones, for comparison a digest of all."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence

KEPT_LINES = 2000


class Trace:
    """Takes lines; `keep` says how many of the last ones are kept, None: all."""

    def __init__(self, keep: int | None = KEPT_LINES) -> None:
        self.lines = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._kept: deque[str] = deque(maxlen=keep)

    def __call__(self, line: str) -> None:
        self.lines += 1
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        self._kept.append(line)

    @property
    def kept(self) -> Sequence[str]:
        return tuple(self._kept)

    @property
    def digest(self) -> str:
        """Equal for two worlds in which the same happened."""
        return self._digest.hexdigest()
