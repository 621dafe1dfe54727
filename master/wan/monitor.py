"""Keeps the record of every link; lets the planner decide what to probe, and has agents probe."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from machine.clock import Clock
from master.base.clock import SteadyTime
from master.base.errors import ProbeFailedError
from master.base.logs import line
from master.wan.history import LinkHistory, LinkPoint
from planner.values.links import Pair
from planner.values.topology import Topology
from planner.wan.estimate import LinkRecord, fold_bandwidth, fold_echo, fold_use
from planner.wan.probing import (
    DEFAULT_SETTINGS,
    Budget,
    Probe,
    ProbeKind,
    ProbeSettings,
    ProbeState,
    choose_probes,
    full_probe,
)
from planner.wan.samples import BandwidthSample, EchoSample, Method, UseSample
from planner.wan.snapshot import WanSnapshot, snapshot

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one probe."""

    method: Method
    bytes_per_s: float
    bytes_sent: int
    took: timedelta
    note: str = ""
    beside_bytes_per_s: float | None = None
    """The rate of our own transfers on the link meanwhile; None: the receiving end cannot tell."""


@dataclass(frozen=True, slots=True)
class Echoes:
    """The outcome of some echoes over a link and back."""

    sent: int
    lost: int
    rtt: timedelta | None
    """The shortest; None: all were lost."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A time in which our own transfers filled a link."""

    size_bytes: int
    """Of all of them."""
    duration: timedelta
    age: timedelta
    """Since its end."""
    link_bound: bool
    """See `planner.wan.samples.BandwidthSample`."""

    @property
    def bytes_per_s(self) -> float:
        return self.size_bytes / self.duration.total_seconds()


class Prober(Protocol):
    """Has agents measure links."""

    async def measure(self, probe: Probe, expected_bytes_per_s: float) -> Measured:
        """Measure a link.

        Raises:
            ProbeFailedError: a site is away, or nothing came through.
        """
        ...


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """The settings of the monitor, with those of probing."""

    probing: ProbeSettings = DEFAULT_SETTINGS
    enabled: bool = True
    """False: only users' probes are made."""
    point_every: timedelta = timedelta(seconds=10)
    """The time between points of a link's history for its use and round trip."""
    retention: timedelta = timedelta(hours=24)
    failed_pause: timedelta = timedelta(seconds=5)
    """After a failed probe, the link is not probed for this time."""
    told_within: timedelta = timedelta(milliseconds=500)
    """The most by which the reported age of a transfer is wrong: the report was on its way for that long."""


@dataclass(slots=True)
class _Link:
    """The state of one link besides its record."""

    budget: Budget | None = None
    thorough_at: datetime | None = None
    not_before: datetime | None = None
    point_at: datetime | None = None
    probe_begun_at: datetime | None = None
    probe_ended_at: datetime | None = None
    """None: no probe was made, or the last one has not ended."""


OnLink = Callable[[Pair, float, float], None]
"""Is called with a link, and with its former and present rate in bytes per second."""


class WanMonitor:
    """Called from one event loop."""

    def __init__(
        self, topology: Topology, *, clock: Clock, prober: Prober, history: LinkHistory, settings: MonitorSettings
    ) -> None:
        self._topology = topology
        self._time = SteadyTime(clock)
        self._prober = prober
        self._history = history
        self._settings = settings
        self._records: dict[Pair, LinkRecord] = {pair: LinkRecord() for pair in topology.links}
        self._links = {pair: _Link() for pair in topology.links}
        self._running: dict[Pair, asyncio.Task[None]] = {}
        self._asked: list[Pair] = []
        """Links that users want to be measured: no other probe begins at their sites."""
        self._alive: Collection[str] = ()
        self._flushed_at = self._time.now()
        self._listeners: list[OnLink] = []

    def listen(self, listener: OnLink) -> None:
        """Call the listener for each link whose measured capacity changes."""
        self._listeners.append(listener)

    def observe_use(self, pair: Pair, bytes_per_s: float) -> None:
        """Record the recent rate of our own transfers on a link."""
        if pair in self._records:
            now = self._time.now()
            self._records[pair] = fold_use(self._records[pair], UseSample(now, bytes_per_s))
            self._note_point(pair, now)

    def observe_echoes(self, pair: Pair, echoes: Echoes) -> None:
        """Record echoes that one site sent to another."""
        if pair in self._records:
            sample = EchoSample(self._time.now(), echoes.sent, echoes.lost, echoes.rtt)
            self._records[pair] = fold_echo(self._records[pair], sample)

    def observe_transfer(self, pair: Pair, transfer: Transfer) -> None:
        """Record transfers of ours that filled the link. Those beside a probe are ignored, because they got only a
        share."""
        if pair in self._records:
            ended_at = self._time.now() - transfer.age
            if not self._beside_probe(self._links[pair], ended_at - transfer.duration, ended_at):
                sample = BandwidthSample(ended_at, Method.PASSIVE, transfer.bytes_per_s, link_bound=transfer.link_bound)
                self._fold(pair, sample)

    def tick(self, alive: Collection[str]) -> None:
        """Start the probes that are due between reachable sites; store the history when that is due."""
        self._alive = alive
        if self._time.now() - self._flushed_at >= self._settings.point_every:
            self.flush()
        self._begin_probes()

    def _begin_probes(self) -> None:
        if not self._settings.enabled:
            return
        now, alive = self._time.now(), self._alive
        state = ProbeState(
            records={p: r for p, r in self._records.items() if self._may_probe(p, alive, now)},
            budgets={p: link.budget for p, link in self._links.items() if link.budget is not None},
            thorough_at={p: link.thorough_at for p, link in self._links.items() if link.thorough_at is not None},
            running=(*self._running, *self._asked),
            now=now,
            declared=self._topology.links,
        )
        for probe in choose_probes(state, self._settings.probing):
            task = asyncio.create_task(self._probe_quietly(probe))
            self._running[probe.pair] = task
            task.add_done_callback(lambda _, pair=probe.pair: self._ended(pair))  # type: ignore[misc]

    def _ended(self, pair: Pair) -> None:
        """The probe's sites are free: the next probes do not wait for a tick."""
        self._running.pop(pair, None)
        self._begin_probes()

    async def probe_now(self, pair: Pair) -> Measured:
        """Make a full probe that a user asks for; it waits for running probes at either site, and ignores the budget.

        Raises:
            ProbeFailedError: the sites could not measure.
        """
        self._asked.append(pair)
        try:
            while busy := [task for other, task in self._running.items() if not set(other).isdisjoint(pair)]:
                await asyncio.wait(busy)
        finally:
            self._asked.remove(pair)
        task = asyncio.ensure_future(self._probe_as_asked(pair))
        self._running[pair] = asyncio.ensure_future(_done(task))
        try:
            return await task
        finally:
            self._running.pop(pair, None)

    def snapshot(self) -> WanSnapshot:
        """All links, as they are known now."""
        return snapshot(self._topology, self._records, self._time.now())

    def history(self, pair: Pair, last: timedelta) -> tuple[LinkPoint, ...]:
        """The points of a link, oldest first."""
        return self._history.of(pair, self._shown(self._time.now()) - last)

    def flush(self) -> None:
        """Store the history; also done regularly."""
        self._flushed_at = self._time.now()
        self._history.flush(self._shown(self._time.now()))

    async def close(self) -> None:
        """Cancel the running probes."""
        self._alive = ()
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _beside_probe(self, link: _Link, begun_at: datetime, ended_at: datetime) -> bool:
        if link.probe_begun_at is None or ended_at + self._settings.told_within <= link.probe_begun_at:
            return False
        return link.probe_ended_at is None or link.probe_ended_at > begun_at - self._settings.told_within

    def _may_probe(self, pair: Pair, alive: Collection[str], now: datetime) -> bool:
        not_before = self._links[pair].not_before
        return pair[0] in alive and pair[1] in alive and (not_before is None or now >= not_before)

    async def _probe_as_asked(self, pair: Pair) -> Measured:
        """Make a full probe; if it contradicts the estimate, a train decides: no other probe may follow."""
        settings, declared = self._settings.probing, self._topology.links[pair]
        measured = await self._probe(full_probe(pair, self._records[pair], declared, "asked for", settings))
        if self._records[pair].suspect is not None:
            with suppress(ProbeFailedError):
                await self._probe(
                    Probe(pair, ProbeKind.TRAIN, settings.train, "the requested probe contradicts the estimate")
                )
        return measured

    async def _probe_quietly(self, probe: Probe) -> None:
        try:
            await self._probe(probe)
        except ProbeFailedError as error:
            self._links[probe.pair].not_before = self._time.now() + self._settings.failed_pause
            logger.info(line("probe failed", link="->".join(probe.pair), reason=error.message))

    async def _probe(self, probe: Probe) -> Measured:
        link, record, settings = self._links[probe.pair], self._records[probe.pair], self._settings.probing
        now = self._time.now()
        budget = link.budget or Budget(settings.most_saved, now)
        link.budget = budget.after(probe, now, settings)
        expected = record.capacity_bytes_per_s or self._topology.links[probe.pair].bandwidth_bytes_per_s
        link.probe_begun_at, link.probe_ended_at = now, None
        try:
            measured = await self._prober.measure(probe, expected)
        finally:
            link.probe_ended_at = self._time.now()
        beside = measured.beside_bytes_per_s
        if beside is None:
            beside = self._records[probe.pair].used_bytes_per_s if probe.kind is ProbeKind.FULL else 0.0
        sample = BandwidthSample(self._time.now(), measured.method, measured.bytes_per_s, beside)
        link.budget = link.budget.settled(probe, measured.bytes_sent, sample.capacity_bytes_per_s)
        self._fold(probe.pair, sample)
        return measured

    def _fold(self, pair: Pair, sample: BandwidthSample) -> None:
        before = self._records[pair]
        record = self._records[pair] = fold_bandwidth(before, sample)
        if sample.method.thorough:
            self._links[pair].thorough_at = sample.at
        if record is before:
            return
        if record.changed_at != before.changed_at:
            logger.info(
                line(
                    "link changed",
                    link="->".join(pair),
                    was_bytes_per_s=round(before.capacity_bytes_per_s or 0),
                    now_bytes_per_s=round(record.capacity_bytes_per_s or 0),
                )
            )
            for listener in self._listeners:
                listener(pair, before.capacity_bytes_per_s or 0.0, record.capacity_bytes_per_s or 0.0)
        self._note_point(pair, sample.at, sample.method)

    def _shown(self, at: datetime) -> datetime:
        """The time by the machine's clock: the history outlasts this process."""
        return at + self._time.departure

    def _note_point(self, pair: Pair, at: datetime, method: Method | None = None) -> None:
        link, record = self._links[pair], self._records[pair]
        if method is None and link.point_at is not None and at - link.point_at < self._settings.point_every:
            return
        link.point_at = at
        point = LinkPoint(
            pair,
            self._shown(at),
            record.capacity_bytes_per_s or 0.0,
            record.used_bytes_per_s,
            record.rtt,
            record.loss,
            method,
        )
        self._history.add(point)


async def _done(task: asyncio.Future[Measured]) -> None:
    """Return when the task has ended, in whatever way."""
    await asyncio.wait([task])
