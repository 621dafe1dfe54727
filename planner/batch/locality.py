"""Locality-priority scheduling: a job that would run mostly remote is skipped for a while, and lets others go first.

Delay scheduling with a threshold (Awan, section 2.4): a job starts when at least `least` of its tasks can start near
their input, or when it was skipped for long enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from planner.batch.model import Bandwidth, Task


@dataclass(frozen=True, slots=True)
class SkipRule:
    least: float = 0.5
    """Locality from which a job starts at once. 0: always; 1: when every task is local, as in delay scheduling."""
    longest: timedelta = timedelta(seconds=10)
    """From the first skip to the start at any locality."""
    most: int | None = None
    """So many skips, then the same; None: time alone counts."""


@dataclass(frozen=True, slots=True)
class Skips:
    """A job's so far."""

    since: datetime | None = None
    times: int = 0

    def another(self, now: datetime) -> Skips:
        return Skips(self.since or now, self.times + 1)


def is_local(task: Task, site: str, bandwidth: Bandwidth, least_bytes_per_s: float) -> bool:
    """Whether every shard is at the site, or reaches it at that bandwidth or more."""
    return all(shard.site == site or bandwidth(shard.site, site) >= least_bytes_per_s for shard in task.shards)


def locality(local: Sequence[bool]) -> float:
    """Share of a job's tasks that can start on a slot local to them; 1 for a job without tasks."""
    return sum(local) / len(local) if local else 1.0


def may_start(level: float, skips: Skips, rule: SkipRule, now: datetime) -> bool:
    """Whether a job of this locality starts now."""
    if level >= rule.least:
        return True
    if skips.since is not None and now - skips.since >= rule.longest:
        return True
    return rule.most is not None and skips.times >= rule.most
