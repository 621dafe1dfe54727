"""Leaves out rows of a source that has fallen behind, where its query allows that."""

from __future__ import annotations

import logging
from collections import deque

from machine.clock import Clock
from planner.adapt.degrade import next_share
from planner.values.adapting import Degrading
from site_agent.channels.log import ChannelLog

logger = logging.getLogger(__name__)


class Shedding:
    """Knows how long rows wait, outside the source and in its channel. Serves one attempt of a task.

    Args:
        log: the source's channel.
        degrading: what the query allows; None: nothing.
        clock: the time.
    """

    def __init__(self, log: ChannelLog, degrading: Degrading | None, clock: Clock) -> None:
        self._log = log
        self._degrading = degrading
        self._clock = clock
        now_s = clock.monotonic()
        self._all_read_s = now_s
        self._changed_s = now_s
        self._published: deque[tuple[int, float]] = deque()
        self.share = 1.0
        """The share of the rows that are let in."""

    @property
    def reason(self) -> str:
        """Return what is left out, for people; empty: nothing is."""
        return "" if self.share >= 1 else f"leaves out {1 - self.share:.0%} of its rows, for others wait too long"

    def read(self, *, everything: bool) -> None:
        """Say that rows were read; `everything`: none are left outside."""
        if everything:
            self._all_read_s = self._clock.monotonic()

    def published(self, epoch: int) -> None:
        """Say that an epoch was published now."""
        if self._degrading is not None:
            self._published.append((epoch, self._clock.monotonic()))

    def look(self) -> None:
        """Decide which share of the rows that are read next is let in."""
        if self._degrading is None:
            return
        now_s, before = self._clock.monotonic(), self.share
        behind_s = now_s - min(self._all_read_s, self._oldest_s(now_s))
        self.share = next_share(self._degrading, before, behind_s=behind_s, since_s=now_s - self._changed_s)
        if self.share == before:
            return
        self._changed_s = now_s
        if 1.0 in (self.share, before):
            told = self.reason or "lets in all rows again"
            logger.warning("%s task=%s: rows wait %.1f s", told, self._log.id, behind_s)

    def _oldest_s(self, now_s: float) -> float:
        """Return when the oldest epoch was published that somebody still waits for."""
        while self._published and self._published[0][0] < self._log.readers.awaited_from:
            self._published.popleft()
        return self._published[0][1] if self._published else now_s
