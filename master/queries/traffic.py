"""The traffic of queries over links, from the counters in their progress."""

from __future__ import annotations

from machine.clock import Clock
from master.base.rates import RateMeter
from master.records.model import LinkUse, Progress, QueryRecord


class QueryTraffic:
    """Keeps totals for a while, from which rates are computed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rates = RateMeter()

    def observe(self, query: str, progress: Progress) -> None:
        """Record a query's totals."""
        now = self._clock.now()
        for (source, target), (size, _) in _link_totals(progress).items():
            self._rates.observe((query, source, target), now, size)

    def of(self, record: QueryRecord) -> tuple[LinkUse, ...]:
        """Bytes of the query's channels over each ordered pair of sites, since the query started."""
        now = self._clock.now()
        return tuple(
            LinkUse(source, target, size, epochs, self._rates.per_second((record.id, source, target), now))
            for (source, target), (size, epochs) in sorted(_link_totals(record.progress).items())
        )

    def forget(self, record: QueryRecord) -> None:
        """Forget a query."""
        for source, target in _link_totals(record.progress):
            self._rates.forget((record.id, source, target))


def _link_totals(progress: Progress) -> dict[tuple[str, str], tuple[int, int]]:
    """(bytes, epochs) by (from, to); what a site reads of its own channels crosses no link."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for counter in progress.counters:
        if counter.from_site != counter.to_site:
            size, epochs = sums.get((counter.from_site, counter.to_site), (0, 0))
            sums[counter.from_site, counter.to_site] = (size + counter.total_bytes, epochs + counter.total_epochs)
    return sums
