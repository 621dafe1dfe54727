"""How long a task needs a slot: the slowest of its transfers, plus how long the like of it took to compute, plus slack.

    lease = max over shards (size / bandwidth from the shard's site) + mean of the last k processing times + slack

(Awan, section 2.3.4.) Times are seconds as plain numbers: a scheduler estimates every task on every site at every turn.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from planner.batch.model import Bandwidth, Task

DEFAULT_RECORDS = 10


@dataclass(frozen=True, slots=True)
class EstimateSettings:
    records: int = DEFAULT_RECORDS
    """Of so many last tasks the processing time is averaged."""
    unknown_s: float = 100.0
    """The lease for a task whose like has run nowhere yet."""
    slack_s: float = 2.0
    """A lease that is too short costs more than one that is a little too long."""


class TaskHistory:
    """Processing times of ended tasks, without transfers, by what a task is like; the only thing here that changes.

    Tasks are alike when their model is the same and their inputs are of the same magnitude (power of two).
    """

    def __init__(self, records: int = DEFAULT_RECORDS) -> None:
        self._records = records
        self._times_s: dict[tuple[str, int, str | None], deque[float]] = {}
        self._means_s: dict[tuple[str, int, str | None], float] = {}

    def add(self, task: Task, site: str, processing_s: float) -> None:
        """A task has ended at a site."""
        for where in (site, None):
            key = (task.model, task.magnitude, where)
            times_s = self._times_s.setdefault(key, deque(maxlen=self._records))
            times_s.append(processing_s)
            self._means_s[key] = sum(times_s) / len(times_s)

    def processing_s(self, task: Task, site: str) -> float | None:
        """The mean of the last like tasks at the site; if there was none, of those anywhere; None: nowhere."""
        model, magnitude = task.model, task.magnitude
        here = self._means_s.get((model, magnitude, site))
        return here if here is not None else self._means_s.get((model, magnitude, None))


def transfer_s(task: Task, site: str, bandwidth: Bandwidth) -> float:
    """Until the last of the shards has arrived, all of them sent at once; shards at the site itself are there."""
    slowest_s = 0.0
    for shard in task.shards:
        if shard.site != site:
            slowest_s = max(slowest_s, shard.size_bytes * task.sent_share / bandwidth(shard.site, site))
    return slowest_s


def lease_estimate_s(
    task: Task, site: str, bandwidth: Bandwidth, history: TaskHistory, settings: EstimateSettings
) -> float:
    """The lease to ask for; `settings.unknown_s` for a task whose like has run nowhere yet."""
    processing_s = history.processing_s(task, site)
    if processing_s is None:
        return settings.unknown_s
    return transfer_s(task, site, bandwidth) + processing_s + settings.slack_s


def run_time_s(task: Task, site: str, bandwidth: Bandwidth, history: TaskHistory, settings: EstimateSettings) -> float:
    """How long the task will hold a slot of the site, for comparing sites.

    The same as the lease, but a task whose like has run nowhere yet takes `settings.unknown_s` beside its transfers:
    the sites differ by their links even then.
    """
    processing_s = history.processing_s(task, site)
    if processing_s is None:
        processing_s = settings.unknown_s
    return transfer_s(task, site, bandwidth) + processing_s + settings.slack_s


def accuracy(*, actual_s: float, predicted_s: float) -> float:
    """1 for a perfect prediction, 0 for one that is off by the whole actual time, less for worse (section 2.5.2)."""
    return 1 - abs(actual_s - predicted_s) / actual_s
