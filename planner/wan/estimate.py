"""One link's record: samples are smoothed, a change is told from noise, age lowers confidence.

Bandwidths of one link scatter by a few per cent, and jump when somebody changes the link or shares it. So a sample near
the estimate moves it a little, one far off replaces it, but only when it is thorough and above, or a second one agrees
with it. A thorough one is TCP, which carries less than the link for many reasons, but never more.

Samples of our own transfers are passive: nobody knows whether it was the link that slowed a transfer down. One above
the estimate replaces it, for the link did carry so much. One below only speaks against it, so that a probe is asked
for, and only when its rate was steady; what a probe has refuted is not asked again for a while.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from planner.wan.samples import BandwidthSample, EchoSample, Method, UseSample


@dataclass(frozen=True, slots=True)
class Smoothing:
    """How samples are weighed."""

    near: float = 0.2
    """A sample within this share of the estimate confirms it."""
    agreeing: float = 0.25
    """Two samples within this share of one another agree on a change."""
    agreeing_within: timedelta = timedelta(seconds=30)
    weight: float = 0.3
    """Of a rough sample that confirms the estimate."""
    thorough_weight: float = 0.7
    """Of a thorough one that lies above it."""
    use_weight: float = 0.5
    rtt_weight: float = 0.25
    loss_weight: float = 0.2
    half_life: timedelta = timedelta(minutes=5)
    """After so long without a sample, confidence is half of what it was."""
    rough_confidence: float = 0.8
    """Confidence in an estimate that no thorough sample has confirmed."""
    suspect_confidence: float = 0.5
    """Factor while a sample speaks against the estimate."""
    refuted_for: timedelta = timedelta(minutes=10)
    """After a probe that found the link faster than a transfer, such transfers are not suspect for so long."""


DEFAULT_SMOOTHING = Smoothing()


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """What is known of one directed link. Begins empty; `fold_*` give the next one."""

    capacity_bytes_per_s: float | None = None
    """What the link carries for us in all; None: never measured."""
    measured_at: datetime | None = None
    method: Method | None = None
    thorough: bool = False
    """A thorough sample made or confirmed the estimate."""
    suspect: BandwidthSample | None = None
    """The latest sample that spoke against the estimate and was not yet confirmed."""
    refuted: BandwidthSample | None = None
    """The latest passive sample that spoke against the estimate and was refuted by a probe."""
    passive_at: datetime | None = None
    """When our own transfers last confirmed or raised the estimate."""
    changed_at: datetime | None = None
    """When the estimate last jumped."""
    used_bytes_per_s: float = 0.0
    used_at: datetime | None = None
    rtt: timedelta | None = None
    loss: float = 0.0
    echoed_at: datetime | None = None


def fold_bandwidth(record: LinkRecord, sample: BandwidthSample, smoothing: Smoothing = DEFAULT_SMOOTHING) -> LinkRecord:
    """The record after a measurement of the bandwidth. A sample older than the latest is ignored."""
    if record.measured_at is not None and sample.at < record.measured_at:
        return record
    seen = sample.capacity_bytes_per_s
    if seen <= 0:
        return record
    known = record.capacity_bytes_per_s
    if known is None:
        # The beginning of a transfer says too little to begin with: it would pass for what the link carries.
        return _taken(record, sample, seen, smoothing) if sample.link_bound else record
    if seen <= known and not sample.link_bound:
        # The link carries so much at least: enough to say that the estimate holds, or nothing.
        if _apart(seen, known) > smoothing.near:
            return record
        return replace(_taken(record, sample, known, smoothing), thorough=record.thorough)
    if _apart(seen, known) <= smoothing.near:
        weight = smoothing.thorough_weight if sample.method.thorough and seen >= known else smoothing.weight
        confirmed = _taken(record, sample, known + weight * (seen - known), smoothing)
        return replace(confirmed, thorough=record.thorough or sample.method.thorough, changed_at=record.changed_at)
    if seen > known and (sample.method.thorough or sample.method is Method.PASSIVE):
        return replace(_taken(record, sample, seen, smoothing), changed_at=sample.at)
    before = record.suspect
    if before is not None and _agree(before, sample, smoothing):
        both = (before.capacity_bytes_per_s + seen) / 2
        return replace(_taken(record, sample, both, smoothing), changed_at=sample.at)
    if sample.method is Method.PASSIVE and _was_refuted(record, sample, smoothing):
        return record
    if sample.method.thorough and before is not None and before.method is Method.TRAIN and seen < _seen(before):
        # TCP that has not found out how fast it may go says less than the train before it.
        return record
    return replace(record, suspect=sample)


def fold_use(record: LinkRecord, sample: UseSample, smoothing: Smoothing = DEFAULT_SMOOTHING) -> LinkRecord:
    """The record after an interval of our own transfers."""
    if record.used_at is not None and sample.at < record.used_at:
        return record
    before = record.used_bytes_per_s
    used = (
        sample.bytes_per_s if record.used_at is None else before + smoothing.use_weight * (sample.bytes_per_s - before)
    )
    return replace(record, used_bytes_per_s=used, used_at=sample.at)


def fold_echo(record: LinkRecord, sample: EchoSample, smoothing: Smoothing = DEFAULT_SMOOTHING) -> LinkRecord:
    """The record after echoes."""
    if (record.echoed_at is not None and sample.at < record.echoed_at) or sample.sent <= 0:
        return record
    lost = sample.lost / sample.sent
    loss = lost if record.echoed_at is None else record.loss + smoothing.loss_weight * (lost - record.loss)
    rtt = record.rtt
    if sample.rtt is not None:
        rtt = sample.rtt if rtt is None else rtt + smoothing.rtt_weight * (sample.rtt - rtt)
    return replace(record, rtt=rtt, loss=loss, echoed_at=sample.at)


def available_bytes_per_s(record: LinkRecord) -> float | None:
    """What new transfers would find: capacity less what ours use now. None: never measured."""
    if record.capacity_bytes_per_s is None:
        return None
    return max(0.0, record.capacity_bytes_per_s - record.used_bytes_per_s)


def use_ratio(record: LinkRecord) -> float | None:
    """Use over capacity; 1 and more is congested. None: never measured."""
    if record.capacity_bytes_per_s is None:
        return None
    return record.used_bytes_per_s / record.capacity_bytes_per_s


def confidence(record: LinkRecord, now: datetime, smoothing: Smoothing = DEFAULT_SMOOTHING) -> float:
    """0 (never measured) to 1 (a thorough sample this moment)."""
    if record.measured_at is None:
        return 0.0
    age = max(timedelta(0), now - record.measured_at)
    trust = 1.0 if record.thorough else smoothing.rough_confidence
    if record.suspect is not None:
        trust *= smoothing.suspect_confidence
    return float(trust * 0.5 ** (age / smoothing.half_life))


def _taken(
    record: LinkRecord, sample: BandwidthSample, capacity_bytes_per_s: float, smoothing: Smoothing
) -> LinkRecord:
    passive = sample.method is Method.PASSIVE
    return replace(
        record,
        capacity_bytes_per_s=capacity_bytes_per_s,
        measured_at=sample.at,
        method=sample.method,
        thorough=sample.method.thorough,
        suspect=None,
        refuted=record.suspect if _refutes(sample, record.suspect, smoothing) else record.refuted,
        passive_at=sample.at if passive else record.passive_at,
    )


def _refutes(probe: BandwidthSample, suspect: BandwidthSample | None, smoothing: Smoothing) -> bool:
    """A probe found that the link carries more than a transfer of ours got."""
    if suspect is None or suspect.method is not Method.PASSIVE or probe.method is Method.PASSIVE:
        return False
    seen, found = suspect.capacity_bytes_per_s, probe.capacity_bytes_per_s
    return found > seen and _apart(found, seen) > smoothing.agreeing


def _was_refuted(record: LinkRecord, sample: BandwidthSample, smoothing: Smoothing) -> bool:
    """A transfer as slow as this one was no sign of a slower link a while ago."""
    before = record.refuted
    if before is None or sample.at - before.at > smoothing.refuted_for:
        return False
    seen, refuted = sample.capacity_bytes_per_s, before.capacity_bytes_per_s
    return seen >= refuted or _apart(seen, refuted) <= smoothing.near


def _seen(sample: BandwidthSample) -> float:
    return sample.capacity_bytes_per_s


def _agree(first: BandwidthSample, second: BandwidthSample, smoothing: Smoothing) -> bool:
    if first.method is Method.PASSIVE and second.method is Method.PASSIVE:
        # What slows one transfer of ours down, slows the next one down too.
        return False
    recent = second.at - first.at <= smoothing.agreeing_within
    return recent and _apart(first.capacity_bytes_per_s, second.capacity_bytes_per_s) <= smoothing.agreeing


def _apart(a: float, b: float) -> float:
    """How far apart, as a share, the same either way: 0.25 for 1 against 1.25."""
    return math.expm1(abs(math.log(a / b)))
