"""The measurements of each link over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from planner.values.links import Pair
from planner.wan.samples import Method


@dataclass(frozen=True, slots=True)
class LinkPoint:
    """The figures of one link at one moment."""

    pair: Pair
    at: datetime
    capacity_bytes_per_s: float
    """0: never measured."""
    used_bytes_per_s: float
    rtt: timedelta | None = None
    loss: float = 0.0
    method: Method | None = None
    """None: no bandwidth was measured at this moment."""


class HistoryStore(Protocol):
    """Durable storage of points."""

    def put_link_points(self, points: Iterable[LinkPoint]) -> None: ...

    def link_points(self, pair: Pair, since: datetime) -> tuple[LinkPoint, ...]:
        """The points since that time, oldest first."""
        ...

    def drop_link_points(self, before: datetime) -> None: ...


class LinkHistory:
    """Collects points and stores them in batches: a commit is expensive."""

    def __init__(self, store: HistoryStore, *, retention: timedelta) -> None:
        self._store = store
        self._retention = retention
        self._unsaved: list[LinkPoint] = []

    def add(self, point: LinkPoint) -> None:
        self._unsaved.append(point)

    def flush(self, now: datetime) -> None:
        """Store new points, delete old ones."""
        if self._unsaved:
            self._store.put_link_points(self._unsaved)
            self._unsaved = []
            self._store.drop_link_points(now - self._retention)

    def of(self, pair: Pair, since: datetime) -> tuple[LinkPoint, ...]:
        """The points since that time, oldest first, including those that are not stored yet."""
        fresh = tuple(point for point in self._unsaved if point.pair == pair and point.at >= since)
        return (*self._store.link_points(pair, since), *fresh)
