"""The master's settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from master.access.config import AccessConfig
from master.records.specs import ResultsLimit
from planner.batch import BatchOptions, EstimateSettings, Policy, SkipRule
from planner.graph.batchoptions import DEFAULT_SPLIT_BYTES
from planner.leases import LeasePolicy
from planner.sharing.modes import Sharing

REQUEST_LIMIT_BYTES = 4 * 1024 * 1024
"""Longest request message."""

STATEMENT_LIMIT_BYTES = 1024 * 1024
"""Longest script, in UTF-8."""


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """How batch queries are run."""

    policy: Policy = Policy.LEASE
    """How their tasks are placed."""
    split_bytes: int = DEFAULT_SPLIT_BYTES
    """About so much of a table's files is one task's."""
    skips: SkipRule = field(default_factory=SkipRule)
    """From which locality on a query starts, and how long it is skipped below."""
    near_bytes_per_s: float = 1e6
    """Input counts as local when the link to it carries so much (8 Mbit/s)."""
    estimates: EstimateSettings = field(default_factory=EstimateSettings)
    """How long tasks are taken to need their slots."""

    @property
    def options(self) -> BatchOptions:
        """Those of queries that choose none."""
        return BatchOptions(self.policy, self.split_bytes, self.skips.least)

    def validate(self) -> tuple[str, ...]:
        """What is wrong, one line per setting; empty when all is well."""
        problems = []
        if self.split_bytes <= 0:
            problems.append(f"split_bytes must be more than 0, not {self.split_bytes}")
        if not 0 <= self.skips.least <= 1:
            problems.append(f"the least locality must be from 0 to 1, not {self.skips.least:g}")
        if self.skips.longest <= timedelta(0):
            problems.append("queries must be skipped for longer than 0 s, or not at all (least locality 0)")
        return tuple(problems)


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
    live_results: ResultsLimit = field(default_factory=ResultsLimit)
    """The limit on the results of a streaming query that its gateway keeps while the query is not over."""
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
    stop_timeout: timedelta = timedelta(seconds=5)
    """Seconds that calls may go on once the master is asked to end."""
    probes: bool = True
    """Whether links between sites are measured now and then; False: only when a user asks."""

    python_functions: bool = True
    """False: CREATE FUNCTION is refused."""
    sharing: Sharing = Sharing.NET
    """What queries share that are submitted without SET sharing."""

    leases: LeasePolicy = field(default_factory=LeasePolicy)
    """How slots are shared."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    """How batch queries are run."""
    access: AccessConfig = field(default_factory=AccessConfig)
    """Whether, and how, callers are checked."""

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
        if self.live_results.size_bytes <= 0:
            problems.append(f"live_results must be more than 0 bytes, not {self.live_results.size_bytes}")
        problems += (f"leases: {problem}" for problem in self.leases.validate())
        problems += (f"batch: {problem}" for problem in self.batch.validate())
        problems += (f"limits: {problem}" for problem in self._limits())
        return tuple(problems)

    def _limits(self) -> Iterator[str]:
        """Limits beyond what the master itself takes."""
        for limits in (*self.access.limits.kinds.values(), *self.access.limits.names.values()):
            if limits.message_bytes > REQUEST_LIMIT_BYTES:
                yield f"message_bytes is {REQUEST_LIMIT_BYTES} at most, not {limits.message_bytes}"
            if limits.statement_bytes > STATEMENT_LIMIT_BYTES:
                yield f"statement_bytes is {STATEMENT_LIMIT_BYTES} at most, not {limits.statement_bytes}"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where the master listens and keeps things."""

    listen: str
    data: Path
    topology: Path
    ready_file: Path | None = None
    tls_dir: Path | None = None
    """Has the master's certificate; None: nothing is encrypted."""
    metrics: str = ""
    """host:port for metrics; empty: they are not served."""
