"""When each generated row is born: a rate that changes at given instants, in whole numbers, so that it is exact.

Let `C(t)` be the integral of the rate from the first instant to `t`. Row `n` is born at the first microsecond at which
`C(t) >= n` while the rate is not 0; so row 0 is born at the start, and at the constant rate `r` row `n` is born `n / r`
seconds later. Instants before a change of rate do not depend on it: what was born stays as it was.

Rates are kept in millionths of a row per second, so `C` in units of 1e-12 rows is a whole number at every microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.relations.connectors.generator import RateChange

MICROS = 1_000_000
PICOS = 10**12


@dataclass(frozen=True, slots=True)
class Segment:
    """A time of constant rate."""

    since_us: int
    rate_micro: int
    """Millionths of a row per second."""
    base: int
    """`C(since)`, in 1e-12 rows."""

    @property
    def first_row(self) -> int:
        """The first row that is born in it, or would be if it lasted."""
        return -(-self.base // PICOS)


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows [start, end) of one segment; `end` None: all that follow."""

    segment: Segment
    start: int
    end: int | None


class Schedule:
    """Row numbers and instants, in both directions."""

    def __init__(self, changes: Iterable[RateChange]) -> None:
        """Takes the changes as `parse_rate_changes` does: one at least, in the order of time."""
        self._segments = _segments(tuple(changes))

    @property
    def start_us(self) -> int:
        return self._segments[0].since_us

    def rows_by(self, instant_us: int) -> int:
        """How many rows are born at or before an instant."""
        segment = self._at(instant_us)
        if segment is None:
            return 0
        reached = segment.base + segment.rate_micro * (instant_us - segment.since_us)
        if segment.rate_micro == 0:
            return -(-reached // PICOS)
        return reached // PICOS + 1

    def time_us(self, row: int) -> int | None:
        """When a row is born; None: never, the rate is 0 from some time on."""
        segment = next((r.segment for r in self.ranges() if r.start <= row and (r.end is None or row < r.end)), None)
        if segment is None:
            return None
        return segment.since_us + -(-(row * PICOS - segment.base) // segment.rate_micro)

    def ranges(self) -> tuple[RowRange, ...]:
        """Which rows are born in which segment, without those that have none."""
        found = []
        for segment, follower in zip(self._segments, (*self._segments[1:], None), strict=True):
            end = None if follower is None else follower.first_row
            if segment.rate_micro > 0 and (end is None or end > segment.first_row):
                found.append(RowRange(segment, segment.first_row, end))
        return tuple(found)

    def _at(self, instant_us: int) -> Segment | None:
        return next((s for s in reversed(self._segments) if s.since_us <= instant_us), None)


def _segments(changes: tuple[RateChange, ...]) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    for since_us, rate in changes:
        before = segments[-1] if segments else None
        base = before.base + before.rate_micro * (since_us - before.since_us) if before else 0
        segments.append(Segment(since_us, round(rate * MICROS), base))
    return tuple(segments)
