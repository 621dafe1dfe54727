"""The master's settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from master.access.config import AccessConfig
from master.records.specs import ResultsLimit
from planner.adapt.model import Settings as AdaptationSettings
from planner.batch import BatchOptions, EstimateSettings, Policy, SkipRule
from planner.graph.batchoptions import DEFAULT_SPLIT_BYTES
from planner.leases import LeasePolicy
from planner.sharing.modes import Sharing
from planner.values.adapting import Adapting
from wire.guests import Certificate

REQUEST_LIMIT_BYTES = 4 * 1024 * 1024
"""The longest request message."""

STATEMENT_LIMIT_BYTES = 1024 * 1024
"""The longest script, in UTF-8."""


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """How batch queries run."""

    policy: Policy = Policy.LEASE
    """How their tasks are placed."""
    split_bytes: int = DEFAULT_SPLIT_BYTES
    """The approximate size of a split."""
    skips: SkipRule = field(default_factory=SkipRule)
    """The locality from which on a query starts, and how long it is skipped below that."""
    near_bytes_per_s: float = 1e6
    """Input counts as local when the link to it carries this much (8 Mbit/s)."""
    estimates: EstimateSettings = field(default_factory=EstimateSettings)
    """How the time that tasks need their slots for is estimated."""

    @property
    def options(self) -> BatchOptions:
        """The options of queries that choose none."""
        return BatchOptions(self.policy, self.split_bytes, self.skips.least)

    def validate(self) -> tuple[str, ...]:
        """The invalid settings, a line for each; empty when all are valid."""
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
    """The master's settings; the defaults are those of the command line."""

    heartbeat_timeout: timedelta = timedelta(seconds=10)
    """A site that has not reported for this time is UNREACHABLE."""
    report_interval: timedelta = timedelta(seconds=1)
    """How often agents are asked to report."""
    epoch_interval: timedelta = timedelta(seconds=1)
    """How often a task polls its input."""
    results_retention: timedelta = timedelta(hours=24)
    """How long after a query's end the gateway keeps its results."""
    live_results: ResultsLimit = field(default_factory=ResultsLimit)
    """The limit on the results that the gateway keeps of a streaming query that is not over."""
    ended_retention: timedelta = timedelta(days=7)
    """How long an ended query stays known, with its events and results."""
    ended_count: int = 1000
    """The most ended queries that stay known; those that ended first are forgotten first."""
    final_report_wait: timedelta = timedelta(seconds=5)
    """How long a complete query waits for the last totals of its tasks before it is FINISHED without them."""
    progress_interval: timedelta = timedelta(seconds=5)
    """How often totals and last-seen times are stored if nothing else stores them earlier."""
    handover_patience: timedelta = timedelta(minutes=10)
    """One step of a task's move may take this long before it is rolled back."""
    analyze_timeout: timedelta = timedelta(seconds=30)
    """How long a site may take to check a query."""
    results_retry: timedelta = timedelta(seconds=60)
    """How long FetchResults waits for an unreachable gateway once the query is over."""
    stop_timeout: timedelta = timedelta(seconds=5)
    """How long calls may go on once the master is asked to stop."""
    probes: bool = True
    """Whether links between sites are probed regularly; False: only when a user asks."""

    python_functions: bool = True
    """False: CREATE FUNCTION is refused."""
    sharing: Sharing = Sharing.NET
    """How queries share that are submitted without SET sharing."""
    adapting: Adapting = Adapting.OFF
    """What may be done about queries that are submitted without SET adaptation."""
    adaptation: AdaptationSettings = field(default_factory=AdaptationSettings)
    """When it is looked at them."""

    leases: LeasePolicy = field(default_factory=LeasePolicy)
    """How slots are shared between frameworks."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    """How batch queries run."""
    access: AccessConfig = field(default_factory=AccessConfig)
    """Whether and how callers are checked."""

    def validate(self) -> tuple[str, ...]:
        """The invalid settings, a line for each; empty when all are valid."""
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
        """Limits that exceed what the master itself accepts."""
        for limits in (*self.access.limits.kinds.values(), *self.access.limits.names.values()):
            if limits.message_bytes > REQUEST_LIMIT_BYTES:
                yield f"message_bytes is {REQUEST_LIMIT_BYTES} at most, not {limits.message_bytes}"
            if limits.statement_bytes > STATEMENT_LIMIT_BYTES:
                yield f"statement_bytes is {STATEMENT_LIMIT_BYTES} at most, not {limits.statement_bytes}"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where the master listens, and where it keeps its files."""

    listen: str
    data: Path
    topology: Path
    ready_file: Path | None = None
    tls_dir: Path | None = None
    """The directory of the master's certificate; None: connections are not encrypted."""
    metrics: str = ""
    """host:port at which metrics are served; empty: they are not."""
    connect: str = ""
    """host:port at which Spark's own clients are served; empty: they are not."""
    flight: str = ""
    """host:port at which clients of Arrow Flight SQL are served; empty: they are not."""
    guest_certificate: Certificate | None = None
    """Both kinds of clients check it; None: their connections are not encrypted."""
