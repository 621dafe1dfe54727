"""The transfers of batch queries between sites, and the bandwidth that another one would get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from contract.tasks import TaskState
from master.batch.scheduled import tasks_of
from master.queries.batch_tasks import map_id
from master.records.model import BatchQuery
from planner.batch import Assigned, TaskPhase


class Links:
    """All links in one turn."""

    def __init__(self, bandwidth: Callable[[str, str], float], live: Iterable[BatchQuery]) -> None:
        self.bandwidth = bandwidth
        """Bytes per second of a link without other transfers."""
        self._sending = Counter(_sending(live))
        self._new: set[tuple[str, str]] = set()

    def joining(self, source: str, target: str) -> float:
        """Bytes per second for one more transfer, which shares the link with those under way."""
        return self.bandwidth(source, target) / (self._sending[source, target] + 1)

    def joined(self, source: str, target: str) -> float:
        """Bytes per second for each transfer under way."""
        return self.bandwidth(source, target) / max(1, self._sending[source, target])

    def send_off(self, placement: Assigned) -> bool:
        """Whether the task may start in this turn: one transfer per link, so that the next one is weighed
        against it."""
        site = placement.slot.site
        needed = {(shard.site, site) for shard in placement.task.shards if shard.site != site}
        if needed & self._new:
            return False
        self._new |= needed
        return True


def _sending(live: Iterable[BatchQuery]) -> Iterator[tuple[str, str]]:
    """The link of each split that is being sent to a MAP at another site."""
    for record in live:
        for number, task in tasks_of(record):
            if number is None or task.phase is not TaskPhase.RUNNING or task.site == record.plan.splits[number].site:
                continue
            status = record.progress.tasks.get(map_id(record, number))
            if status is None or status.state is TaskState.STARTING:
                yield record.plan.splits[number].site, task.site
