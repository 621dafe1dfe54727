"""How long queries that are over stay known. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from master.records.model import QueryRecord


@dataclass(frozen=True, slots=True)
class EndedRetention:
    """Ended queries are kept while they are younger than `age` and among the `count` that ended last."""

    age: timedelta
    count: int


def purgeable(
    queries: Iterable[QueryRecord], *, now: datetime, retention: EndedRetention, needed: Collection[str] = ()
) -> tuple[str, ...]:
    """Ids of ended queries that need not be known any more, those that ended first in front.

    `needed` are queries whose operators others use: they stay, however long ago they ended.
    """
    ended = sorted((q.ended_at, q.id) for q in queries if q.state.over and q.ended_at is not None)
    surplus = max(0, len(ended) - retention.count)
    oldest = now - retention.age
    return tuple(q for rank, (at, q) in enumerate(ended) if (rank < surplus or at <= oldest) and q not in needed)
