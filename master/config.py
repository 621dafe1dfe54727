"""The master's settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from planner.leases import LeasePolicy
from planner.sharing.modes import Sharing

REQUEST_LIMIT_BYTES = 4 * 1024 * 1024
"""Longest request message."""

STATEMENT_LIMIT_BYTES = 1024 * 1024
"""Longest script, in UTF-8."""


@dataclass(frozen=True, slots=True)
class MasterConfig:
    """What can be chosen; the defaults are those of the command line."""

    heartbeat_timeout: timedelta = timedelta(seconds=10)
    """A site that reports nothing for so long is UNREACHABLE."""
    report_interval: timedelta = timedelta(seconds=1)
    """How often agents are asked to report."""
    epoch_interval: timedelta = timedelta(seconds=1)
    """How often a task looks for input."""
    results_retention: timedelta = timedelta(hours=24)
    """How long after a query's end the gateway keeps its results."""
    ended_retention: timedelta = timedelta(days=7)
    """How long after its end a query stays known, with its events and results."""
    ended_count: int = 1000
    """How many ended queries stay known at most; those that ended first go first."""
    final_report_wait: timedelta = timedelta(seconds=5)
    """How long a complete query waits for the last totals of its tasks before it is FINISHED without them."""
    progress_interval: timedelta = timedelta(seconds=5)
    """How often totals and last-seen times are stored when nothing else makes them be stored."""
    analyze_timeout: timedelta = timedelta(seconds=30)
    """How long a site may take to check a query."""
    results_retry: timedelta = timedelta(seconds=60)
    """How long FetchResults waits for an absent gateway once the query is over."""
    probes: bool = True
    """Whether links between sites are measured now and then; False: only when a user asks."""

    sharing: Sharing = Sharing.NET
    """What queries share that are submitted without SET sharing."""

    leases: LeasePolicy = field(default_factory=LeasePolicy)
    """How slots are shared."""

    def validate(self) -> tuple[str, ...]:
        """What is wrong, one line per setting; empty when all is well."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        problems = [
            f"{name} must be longer than 0 s, not {value.total_seconds():g} s"
            for name, value in values.items()
            if isinstance(value, timedelta) and value <= timedelta(0)
        ]
        if self.ended_count < 0:
            problems.append(f"ended_count must be at least 0, not {self.ended_count}")
        problems += (f"leases: {problem}" for problem in self.leases.validate())
        return tuple(problems)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where the master listens and keeps things."""

    listen: str
    data: Path
    topology: Path
    ready_file: Path | None = None
