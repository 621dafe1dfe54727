"""Which of several queries that share a channel slows its producer down: the one that keeps up best, not the slowest.

A query is behind when more waits for it than the channel's budget, while less waits for another. What only queries that
are behind still need is kept beyond the budget, up to a second one; a query that needs more than both is left behind.
Within a query nothing changes: the slowest of its readers counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class ChannelReader:
    site: str
    name: str
    """The reader as the site's router knows it: a task's id, or `results:` and a query's id."""


@dataclass(frozen=True, slots=True)
class QueryReaders:
    """The readers of a channel that one query needs; a query without any never slows the producer down."""

    query_id: str
    readers: tuple[ChannelReader, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The bytes that a channel keeps for one query."""

    query_id: str
    """Empty: for all readers together."""
    size_bytes: int
    sites: tuple[str, ...] = ()
    """The sites of the query's slowest readers."""


@dataclass(frozen=True, slots=True)
class Behind:
    """A query that is behind the others that read the channel."""

    query_id: str
    size_bytes: int
    """All bytes that wait for it."""
    sites: tuple[str, ...]
    left: bool = False
    """More waits for it than the channel keeps for queries that are behind."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """The effect of a channel's readers on its producer."""

    waits: bool
    """The producer must admit no input."""
    pace: Waiting | None
    """What waits for the query that keeps up best."""
    behind: tuple[Behind, ...]


def pressure(
    waiting: Sequence[Waiting], *, retained_bytes: int, kept_behind_bytes: int, growing: bool = True
) -> Pressure:
    """Whether a producer has to wait, and which queries are behind the one that keeps up best.

    Args:
        waiting: what is kept for each query.
        retained_bytes: beyond so much for the query that keeps up best, the producer waits.
        kept_behind_bytes: so much more is kept for those that do not keep up. A producer whose channel keeps more waits
            too, until somebody has taken away the query that is left behind: the disk must not fill when nobody does.
        growing: the channel has not ended; of one that has, nobody is left behind.
    """
    pace = min(waiting, key=lambda w: w.size_bytes, default=None)
    if pace is None:
        return Pressure(waits=False, pace=None, behind=())
    most_bytes = retained_bytes + kept_behind_bytes
    behind = tuple(
        Behind(w.query_id, w.size_bytes, w.sites, left=growing and w.size_bytes > most_bytes)
        for w in waiting
        if w.size_bytes > max(retained_bytes, pace.size_bytes)
    )
    return Pressure(pace.size_bytes > retained_bytes or any(b.left for b in behind), pace, behind)


@dataclass(frozen=True, slots=True)
class ReaderCursors:
    """How far the readers of a channel are ahead of what their site has acknowledged."""

    queries: tuple[QueryReaders, ...] = ()
    """None: the channel is not shared."""
    ahead: Mapping[ChannelReader, int] = field(default_factory=dict)
    """The next epoch that a reader needs. Not stored: sites report it again."""

    def named(self, queries: Iterable[QueryReaders]) -> ReaderCursors:
        """With exactly these queries."""
        queries = tuple(queries)
        known = {reader for query in queries for reader in query.readers}
        return ReaderCursors(queries, {reader: cursor for reader, cursor in self.ahead.items() if reader in known})

    def passed(self, reader: ChannelReader, cursor: int) -> ReaderCursors:
        """The reader does not need the epochs before `cursor`. Unknown readers and older cursors change nothing."""
        if cursor <= self.ahead.get(reader, 0) or not any(reader in query.readers for query in self.queries):
            return self
        return replace(self, ahead={**self.ahead, reader: cursor})

    def positions(self, sites: Mapping[str, int]) -> Mapping[str, tuple[int | None, tuple[str, ...]]]:
        """By query, the first epoch that it needs (None: none), and the sites of the readers that need it.

        `sites` holds the first epoch that each site needs.
        """
        return {query.query_id: self._position(query.readers, sites) for query in self.queries}

    def _position(
        self, readers: Sequence[ChannelReader], sites: Mapping[str, int]
    ) -> tuple[int | None, tuple[str, ...]]:
        cursors = {reader: max(self.ahead.get(reader, 0), sites.get(reader.site, 0)) for reader in readers}
        least = min(cursors.values(), default=None)
        return least, tuple(sorted({reader.site for reader, cursor in cursors.items() if cursor == least}))
