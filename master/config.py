"""The master's settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

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
    final_report_wait: timedelta = timedelta(seconds=5)
    """How long a complete query waits for the last totals of its tasks before it is FINISHED without them."""
    progress_interval: timedelta = timedelta(seconds=5)
    """How often totals and last-seen times are stored when nothing else makes them be stored."""
    analyze_timeout: timedelta = timedelta(seconds=30)
    """How long a site may take to check a query."""
    results_retry: timedelta = timedelta(seconds=60)
    """How long FetchResults waits for an absent gateway once the query is over."""

    def validate(self) -> tuple[str, ...]:
        """What is wrong, one line per setting; empty when all is well."""
        durations = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return tuple(
            f"{name} must be longer than 0 s, not {value.total_seconds():g} s"
            for name, value in durations.items()
            if value <= timedelta(0)
        )


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where the master listens and keeps things."""

    listen: str
    data: Path
    topology: Path
    ready_file: Path | None = None
