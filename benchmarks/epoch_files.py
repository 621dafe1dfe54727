"""Watches the channels on the disks of a development cluster: which epoch was where, when, and how large.

A site's copy of a channel has the payloads that crossed the link. So the files tell what was sent and what arrived,
without a figure of the product that is measured.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

LOOK_S = 0.1
"""An epoch stays until its readers have checkpoints behind it, which is longer."""


@dataclass(frozen=True, slots=True)
class EpochFile:
    """An epoch at a site."""

    epoch: int
    at_s: float
    """The time at which it was written."""
    size_bytes: int


class EpochFiles:
    """All epoch files that were ever there, by site and channel. Looks from `__enter__` to `__exit__`."""

    def __init__(self, data: Path) -> None:
        self._sites = data / "sites"
        self._found: dict[tuple[str, str], dict[int, EpochFile]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="epoch files", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def channels(self, site: str) -> list[str]:
        """All channels that were at a site so far."""
        return sorted(channel for of, channel in list(self._found) if of == site)

    def of(self, site: str, channel: str) -> list[EpochFile]:
        """The epochs of a channel that were at a site so far, in order."""
        return [found for _, found in sorted(self._found.get((site, channel), {}).items())]

    def bytes_of(self, site: str, channel: str, begin_s: float, end_s: float) -> int:
        """The bytes that came to a site of a channel in a time."""
        return sum(file.size_bytes for file in self.of(site, channel) if begin_s < file.at_s <= end_s)

    def longest_gap_s(self, site: str, channel: str, begin_s: float, end_s: float) -> float:
        """The longest time between two epochs of which a part lies in this time."""
        times = [file.at_s for file in self.of(site, channel)]
        return max((b - a for a, b in pairwise(times) if b > begin_s and a < end_s), default=0.0)

    def _follow(self) -> None:
        while not self._over.wait(LOOK_S):
            for channel in self._sites.glob("*/channels/*"):
                with suppress(OSError):
                    self._look(channel)

    def _look(self, channel: Path) -> None:
        known = self._found.setdefault((channel.parent.parent.name, channel.name), {})
        with os.scandir(channel) as entries:
            for entry in entries:
                number, dot, kind = entry.name.partition(".")
                if dot and kind == "epoch" and number.isdigit() and int(number) not in known:
                    stat = entry.stat()
                    known[int(number)] = EpochFile(int(number), stat.st_mtime, stat.st_size)
