"""How long a task needs a slot: the slowest of its transfers, plus how long the like of it took to compute, plus slack.

    lease = max over shards (size / bandwidth from the shard's site) + mean of the last k processing times + slack

(Awan, section 2.3.4.) There, a task whose like has run nowhere gets a default. Here it gets that only when nothing is
known of tasks that are somewhat like it either: see `TaskHistory.guess_s`. And there, a shard comes from a site as fast
as its link carries it. Here a job reads and packs it first, whose time is added where there is such a job
(`Task.is_read_there`): otherwise sites with fast links would trade their shards.

Times are seconds as plain numbers: a scheduler estimates every task on every site at every turn.
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
    """The lease for a task of which nothing is known but its transfers."""
    slack_s: float = 2.0
    """A lease that is too short costs more than one that is a little too long."""


class _Times:
    """The last processing times of tasks that count as one kind, with the sizes of their inputs."""

    def __init__(self, records: int) -> None:
        self._last: deque[tuple[float, int]] = deque(maxlen=records)
        self.mean_s = 0.0
        self.mean_bytes = 0.0

    def add(self, processing_s: float, size_bytes: int) -> None:
        self._last.append((processing_s, size_bytes))
        self.mean_s = sum(seconds for seconds, _ in self._last) / len(self._last)
        self.mean_bytes = sum(size for _, size in self._last) / len(self._last)


class TaskHistory:
    """Processing times of ended tasks, without transfers, by what a task is like; the only thing here that changes.

    Tasks are alike when their model is the same and their inputs are of the same magnitude (power of two).
    """

    def __init__(self, records: int = DEFAULT_RECORDS) -> None:
        self._records = records
        self._like: dict[tuple[str, int, str | None], _Times] = {}
        self._reading: dict[tuple[str, int], _Times] = {}
        self._sizes: dict[_Group, dict[int, _Times]] = {}

    def add(self, task: Task, site: str, processing_s: float) -> None:
        """A task has ended at a site."""
        for where in (site, None):
            key = (task.model, task.magnitude, where)
            self._like.setdefault(key, _Times(self._records)).add(processing_s, task.size_bytes)
        for group in _groups(task):
            sizes = self._sizes.setdefault(group, {})
            sizes.setdefault(task.magnitude, _Times(self._records)).add(processing_s, task.size_bytes)

    def add_reading(self, task: Task, reading_s: float) -> None:
        """A task at another site than its shards has ended: beside transfer and processing, so much was for reading."""
        key = (task.model, task.magnitude)
        self._reading.setdefault(key, _Times(self._records)).add(reading_s, task.size_bytes)

    def reading_s(self, task: Task, processing_s: float) -> float:
        """The mean of the last like tasks; if there was none, what the task needs itself: it reads as many bytes."""
        times = self._reading.get((task.model, task.magnitude))
        return times.mean_s if times is not None else processing_s

    def processing_s(self, task: Task, site: str) -> float | None:
        """The mean of the last like tasks at the site; if there was none, of those anywhere; None: nowhere."""
        model, magnitude = task.model, task.magnitude
        times = self._like.get((model, magnitude, site)) or self._like.get((model, magnitude, None))
        return times.mean_s if times is not None else None

    def guess_s(self, task: Task, most_s: float) -> float | None:
        """For a task whose like has run nowhere: by the bytes of those of its model, or else of its family.

        The nearest size counts. A larger input is taken to need more in proportion, but not beyond `most_s`, unless
        the smaller one did: a part of the time is the same for every size, and would be multiplied with the rest.
        None: nothing of the family has ended.
        """
        for group in _groups(task):
            sizes = self._sizes.get(group)
            if sizes:
                nearest = min(sizes, key=lambda magnitude: (abs(magnitude - task.magnitude), magnitude))
                return _scaled_s(sizes[nearest], task.size_bytes, most_s)
        return None


_Group = tuple[str, str]
"""`model` or `family`, and its name."""


def _groups(task: Task) -> tuple[_Group, ...]:
    """Whose times say something about the task, the closest first."""
    return (("model", task.model), ("family", task.family)) if task.family else (("model", task.model),)


def _scaled_s(times: _Times, size_bytes: int, most_s: float) -> float:
    # Inputs may be empty.
    ratio = (size_bytes + 1) / (times.mean_bytes + 1)
    return times.mean_s * ratio if ratio <= 1 else max(times.mean_s, min(times.mean_s * ratio, most_s))


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
    """The lease to ask for; for a task of which nothing is known, `settings.unknown_s` or what its transfers take."""
    processing_s = _processing_s(task, site, history, settings)
    if processing_s is None:
        return max(settings.unknown_s, transfer_s(task, site, bandwidth) + settings.slack_s)
    return _needed_s(task, site, bandwidth, history, processing_s) + settings.slack_s


def run_time_s(task: Task, site: str, bandwidth: Bandwidth, history: TaskHistory, settings: EstimateSettings) -> float:
    """How long the task will hold a slot of the site, for comparing sites.

    The same as the lease, but a task of which nothing is known takes `settings.unknown_s` beside its transfers: the
    sites differ by their links even then.
    """
    processing_s = _processing_s(task, site, history, settings)
    if processing_s is None:
        return transfer_s(task, site, bandwidth) + settings.unknown_s + settings.slack_s
    return _needed_s(task, site, bandwidth, history, processing_s) + settings.slack_s


def _needed_s(task: Task, site: str, bandwidth: Bandwidth, history: TaskHistory, processing_s: float) -> float:
    is_read = task.is_read_there and any(shard.site != site for shard in task.shards)
    reading_s = history.reading_s(task, processing_s) if is_read else 0.0
    return transfer_s(task, site, bandwidth) + reading_s + processing_s


def _processing_s(task: Task, site: str, history: TaskHistory, settings: EstimateSettings) -> float | None:
    known_s = history.processing_s(task, site)
    return known_s if known_s is not None else history.guess_s(task, settings.unknown_s)


def accuracy(*, actual_s: float, predicted_s: float) -> float:
    """1 for a perfect prediction, 0 for one that is off by the whole actual time, less for worse (section 2.5.2)."""
    return 1 - abs(actual_s - predicted_s) / actual_s
