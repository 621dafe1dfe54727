"""Which links to probe now: those known least, never two at one site, never for more than a share of a link.

A *train* is cheap and tells whether the estimate still holds; a *full* probe is dear and says what the link carries. A
link that our own transfers fill is measured by them and not probed, unless what they show speaks against the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from planner.values.links import Pair
from planner.values.topology import Link
from planner.wan.estimate import DEFAULT_SMOOTHING, LinkRecord, Smoothing, confidence

INITIAL_WINDOW_BYTES = 14_600
"""What TCP sends before the first acknowledgement: ten segments (RFC 6928)."""


class ProbeKind(Enum):
    TRAIN = "train"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Probe:
    """A measurement to make now."""

    pair: Pair
    kind: ProbeKind
    duration: timedelta
    """How long it fills the link."""
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """What probing may cost, and how fresh estimates are to be."""

    most_share: float = 0.02
    """Of a link's capacity, on average, that probes may take."""
    most_saved: timedelta = timedelta(seconds=2.2)
    """Probing that a link may save up for, so that a full probe does not stop the trains for a minute."""
    train: timedelta = timedelta(milliseconds=60)
    full: timedelta = timedelta(seconds=1)
    """On links where TCP needs longer than half of that to find out how fast it may go, twice as long."""
    check_every: timedelta = timedelta(seconds=6)
    """A train is due when the last sample is older."""
    renew_every: timedelta = timedelta(minutes=10)
    """A full probe is due when the last thorough sample is older."""
    passive_for: timedelta = timedelta(seconds=6)
    """No probe is due when our own transfers have measured the link within this time."""


DEFAULT_SETTINGS = ProbeSettings()


@dataclass(frozen=True, slots=True)
class Budget:
    """What probes of one link may still cost: time that they fill it."""

    saved: timedelta
    at: datetime

    def now(self, now: datetime, settings: ProbeSettings = DEFAULT_SETTINGS) -> timedelta:
        """What is saved by now."""
        earned = max(timedelta(0), now - self.at) * settings.most_share
        return min(settings.most_saved, self.saved + earned)

    def after(self, probe: Probe, now: datetime, settings: ProbeSettings = DEFAULT_SETTINGS) -> Budget:
        """The budget once a probe has begun."""
        return Budget(self.now(now, settings) - probe.duration, now)

    def settled(self, probe: Probe, bytes_sent: int, capacity_bytes_per_s: float) -> Budget:
        """The budget once it is known what the probe really cost: a link that has become slower was filled for longer.

        What is overdrawn is saved up before the next probe.
        """
        if capacity_bytes_per_s <= 0:
            return self
        filled = timedelta(seconds=bytes_sent / capacity_bytes_per_s)
        return Budget(self.saved + probe.duration - filled, self.at)


@dataclass(frozen=True, slots=True)
class ProbeState:
    """What is known when probes are chosen."""

    records: Mapping[Pair, LinkRecord]
    """Of all links that could be probed: both sites are alive."""
    budgets: Mapping[Pair, Budget]
    """Of links that were probed; others have saved all they may."""
    thorough_at: Mapping[Pair, datetime]
    """When each link last had a thorough sample."""
    running: Collection[Pair]
    now: datetime
    declared: Mapping[Pair, Link] = field(default_factory=dict)
    """What the topology file says of links that were not measured."""


def full_probe(
    pair: Pair, record: LinkRecord, declared: Link | None, reason: str, settings: ProbeSettings = DEFAULT_SETTINGS
) -> Probe:
    """A full probe of a link, as long as TCP needs there: slow start doubles what is under way once in a round trip."""
    rtt = record.rtt if record.rtt is not None else 2 * declared.latency if declared is not None else timedelta(0)
    known = record.capacity_bytes_per_s
    bytes_per_s = max(known or 0.0, declared.bandwidth_bytes_per_s if declared is not None and known is None else 0.0)
    under_way = max(1.0, rtt.total_seconds() * bytes_per_s / INITIAL_WINDOW_BYTES)
    ramp = rtt * (math.log2(under_way) + 1)
    return Probe(pair, ProbeKind.FULL, settings.full if ramp <= settings.full / 2 else settings.full * 2, reason)


def choose_probes(
    state: ProbeState, settings: ProbeSettings = DEFAULT_SETTINGS, smoothing: Smoothing = DEFAULT_SMOOTHING
) -> tuple[Probe, ...]:
    """Probes to begin now; no site is part of two of them, those that run included."""
    wanted = []
    for pair, record in state.records.items():
        saved = state.budgets[pair].now(state.now, settings) if pair in state.budgets else settings.most_saved
        probes = [p for p in _wanted(pair, record, state, settings) if p.duration <= saved]
        if probes:
            wanted.append((_urgency(record), confidence(record, state.now, smoothing), pair, probes[0]))
    taken = {site for pair in state.running for site in pair}
    chosen = []
    for _, _, pair, probe in sorted(wanted, key=lambda entry: entry[:3]):
        if taken.isdisjoint(pair):
            taken.update(pair)
            chosen.append(probe)
    return tuple(chosen)


def _wanted(pair: Pair, record: LinkRecord, state: ProbeState, settings: ProbeSettings) -> list[Probe]:
    """What would be good to know of a link, best first; the first that can be paid for is made."""
    now, declared = state.now, state.declared.get(pair)
    if record.capacity_bytes_per_s is None:
        return [full_probe(pair, record, declared, "never measured", settings)]
    if record.suspect is not None:
        reason = "a sample speaks against the estimate"
        train = Probe(pair, ProbeKind.TRAIN, settings.train, reason)
        if record.suspect.capacity_bytes_per_s < record.capacity_bytes_per_s:
            # That TCP gets less proves nothing, and a train is sooner over.
            return [train]
        return [full_probe(pair, record, declared, reason, settings), train]
    if _measures_itself(record, now, settings):
        return []
    probes = []
    thorough_at = state.thorough_at.get(pair)
    if thorough_at is None or now - thorough_at >= settings.renew_every:
        probes.append(full_probe(pair, record, declared, "no thorough measurement of late", settings))
    if record.measured_at is None or now - record.measured_at >= settings.check_every:
        probes.append(Probe(pair, ProbeKind.TRAIN, settings.train, "does the estimate still hold?"))
    return probes


def _measures_itself(record: LinkRecord, now: datetime, settings: ProbeSettings) -> bool:
    return record.passive_at is not None and now - record.passive_at <= settings.passive_for


def _urgency(record: LinkRecord) -> int:
    """What comes first when sites are short."""
    if record.capacity_bytes_per_s is None:
        return 0
    return 1 if record.suspect is not None else 2
