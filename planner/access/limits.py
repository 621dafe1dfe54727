"""Limits of one caller, and the meters that hold to them. The clock is the caller's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from planner.access.principal import Kind, Principal


@dataclass(frozen=True, slots=True)
class Limits:
    """Those of one principal. Every one is above 0."""

    message_bytes: int = 4 * 1024 * 1024
    """The size of one request."""
    calls_per_s: float = 100.0
    """On average; streams are counted when they begin."""
    burst_calls: int = 500
    """So many calls at once, after a while without any."""
    concurrent_calls: int = 32
    streams: int = 64
    """Calls that follow something: results, states, slots."""
    live_queries: int = 100
    statement_bytes: int = 1024 * 1024
    """The size of one script, in UTF-8."""

    def validate(self) -> tuple[str, ...]:
        """The problems, one line per limit."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return tuple(f"{name} must be more than 0, not {value:g}" for name, value in values.items() if not value > 0)


MEMBER = Limits(calls_per_s=5_000.0, burst_calls=10_000, concurrent_calls=1_000, streams=1_000)
"""Limits of a site's agent or a framework: a framework asks for slots one by one, as fast as it can."""


@dataclass(frozen=True, slots=True)
class LimitTable:
    """The limits of everybody."""

    kinds: Mapping[Kind, Limits] = field(
        default_factory=lambda: {Kind.PERSON: Limits(), Kind.SITE: MEMBER, Kind.FRAMEWORK: MEMBER}
    )
    names: Mapping[str, Limits] = field(default_factory=dict)
    """Limits of single principals, by name."""

    def of(self, principal: Principal) -> Limits:
        """Those that hold for a principal."""
        return self.names.get(principal.name) or self.kinds.get(principal.kind) or Limits()


@dataclass(slots=True)
class TokenBucket:
    """Lets so many calls through on average, and a burst after a pause."""

    per_s: float
    burst: float
    tokens: float
    at: datetime

    @classmethod
    def full(cls, limits: Limits, now: datetime) -> TokenBucket:
        """One that nothing was taken from."""
        return cls(limits.calls_per_s, limits.burst_calls, limits.burst_calls, now)

    def take(self, now: datetime) -> bool:
        """True when one more call may pass; it is counted then. Time that goes back adds nothing."""
        self._fill(now)
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    def is_full(self, now: datetime) -> bool:
        """True when it is as new."""
        self._fill(now)
        return self.tokens >= self.burst

    def _fill(self, now: datetime) -> None:
        passed = max(now - self.at, timedelta(0))
        self.at = max(now, self.at)
        self.tokens = min(self.burst, self.tokens + passed.total_seconds() * self.per_s)


@dataclass(slots=True)
class Meter:
    """The calls and streams that one principal has open now."""

    limits: Limits
    bucket: TokenBucket
    calls: int = 0
    streams: int = 0

    def begin(self, now: datetime, *, follows: bool) -> str:
        """Count a call that begins: empty. Or the name of the limit that it exceeds, and nothing is counted."""
        if follows and self.streams >= self.limits.streams:
            return "streams"
        if not follows and self.calls >= self.limits.concurrent_calls:
            return "concurrent_calls"
        if not self.bucket.take(now):
            return "calls_per_s"
        self.streams += follows
        self.calls += not follows
        return ""

    def end(self, *, follows: bool) -> None:
        """Count a call that has ended."""
        self.streams -= follows
        self.calls -= not follows

    def is_idle(self, now: datetime) -> bool:
        """True when nothing is lost by forgetting it."""
        return not self.calls and not self.streams and self.bucket.is_full(now)


class Meters:
    """The meters of all principals; those that are idle are forgotten."""

    def __init__(self, table: LimitTable) -> None:
        self._table = table
        self._meters: dict[tuple[Kind, str], Meter] = {}

    def of(self, principal: Principal, now: datetime) -> Meter:
        """The principal's meter, a new one if it has none."""
        key = (principal.kind, principal.name)
        meter = self._meters.get(key)
        if meter is None:
            limits = self._table.of(principal)
            meter = self._meters[key] = Meter(limits, TokenBucket.full(limits, now))
        return meter

    def forget_idle(self, now: datetime) -> None:
        """Let go of the meters that are as new."""
        self._meters = {key: meter for key, meter in self._meters.items() if not meter.is_idle(now)}

    def __len__(self) -> int:
        return len(self._meters)
