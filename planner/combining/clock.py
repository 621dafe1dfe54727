"""When windows end and close, by the clock of a task's input.

That clock is the input's watermark and its delay: a site that lags, or replays old rows, has its own time. The delay is
what the stream declares, or less, where a source promises that its rows come in order: it is seen when a window begins.
Between two epochs the clock goes on with the wall clock, at the pace of the epochs before. Where the input comes from
other sites that combine, its watermark moves when windows close there, and the clock goes on alone for long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

AFTER_CLOSE_S = 0.2
"""After the epoch that closes a window, its last groups may keep the link busy for so long."""
CLOSING_S = 0.1
"""What the job that closes a window takes as a rule."""
MOST_LATE_S = 0.5
"""A job that takes longer waits for the CPU, as all that comes behind the link does: more is not sent early for it."""
WEIGHT = 0.3
"""Of the newest epoch in averages."""
LEAST_STEP_S = 0.01
PACE_S = 10.0
"""Where epochs are seldom, the pace is that of about so long."""
EARLY_EPOCHS = 0.1
"""A window that closes so short a part of an epoch after an epoch is expected with that epoch."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What is expected of a window, in seconds from now."""

    ends_in_s: float
    """Until the input's clock passes its end; negative: it has."""
    due_in_s: float
    """Until the last of its groups should have crossed the link."""


@dataclass(frozen=True, slots=True)
class InputClock:
    """The clock of a task's input, at an epoch."""

    delay_us: int
    """The watermark is earlier than the newest row by no more than this, as the stream declares."""
    step_us: float
    """How far an epoch moves the watermark."""
    step_s: float
    """How long it is until the next epoch."""
    watermark_us: int | None = None
    at_s: float = 0.0
    """When the epoch came; any clock that only goes forward."""
    seldom: bool = False
    """True: an epoch that moves the watermark stands for all that would have been since the last one."""
    moved_us: float = 0.0
    took_s: float = 0.0
    """Where epochs are seldom: how far they moved the watermark lately, and in which time."""
    seen_us: int | None = None
    """The watermark was so much earlier than the newest row when a window began; None: that was not seen yet."""

    def after(self, watermark_us: int | None, now_s: float) -> InputClock:
        """The clock after an epoch that came now."""
        if watermark_us is None or (self.watermark_us is not None and watermark_us <= self.watermark_us):
            return self
        if self.watermark_us is None:
            return replace(self, watermark_us=watermark_us, at_s=now_s)
        if self.seldom:
            return self._at(watermark_us, now_s)
        return replace(
            self,
            watermark_us=watermark_us,
            at_s=now_s,
            step_us=(1 - WEIGHT) * self.step_us + WEIGHT * (watermark_us - self.watermark_us),
            step_s=max(LEAST_STEP_S, (1 - WEIGHT) * self.step_s + WEIGHT * (now_s - self.at_s)),
        )

    def begins(self, start_us: int) -> InputClock:
        """Return the clock before an epoch that is the first with a row of a window that begins at this instant.

        Until then the newest row was older, by half an epoch on average: that tells the delay. Where it would be much
        longer than declared, no rows had come for a while, and nothing is told.
        """
        if self.watermark_us is None or self.seldom:
            return self
        seen_us = start_us - self.step_us / 2 - self.watermark_us
        if seen_us > self.delay_us + self.step_us:
            return self
        return replace(self, seen_us=round(min(self.delay_us, max(0.0, seen_us))))

    def past_us(self, end_us: int, now_s: float) -> int | None:
        """How far the clock is past an instant, as rows have it; negative: that is to come."""
        if self.watermark_us is None:
            return None
        alone_us = self._alone_s(now_s) / max(LEAST_STEP_S, self.step_s) * self.step_us
        return round(self.watermark_us + alone_us) + self._delay_us - end_us

    def closing(self, end_us: int, now_s: float, *, job_s: float = CLOSING_S) -> Closing | None:
        """What is expected of a window with that end; None before the first watermark.

        Args:
            end_us: the end of the window.
            now_s: on the clock of `at_s`; that of the last epoch, unless epochs are seldom.
            job_s: what the job that closes a window took lately.
        """
        if self.watermark_us is None or self.step_us <= 0:
            return None
        epochs = (end_us - self.watermark_us) / self.step_us
        alone_s = self._alone_s(now_s)
        closes_in_s = max(1, math.ceil(epochs - EARLY_EPOCHS)) * self.step_s - alone_s
        late_s = min(MOST_LATE_S, max(0.0, job_s - CLOSING_S))
        return Closing(
            (epochs - self._delay_us / self.step_us) * self.step_s - alone_s,
            max(0.0, closes_in_s + AFTER_CLOSE_S - late_s),
        )

    @property
    def _delay_us(self) -> int:
        return self.delay_us if self.seen_us is None else self.seen_us

    def _at(self, watermark_us: int, now_s: float) -> InputClock:
        """After one of the seldom epochs. Several may come in a moment, one from each site."""
        assert self.watermark_us is not None
        step_s = max(LEAST_STEP_S, self.step_s)
        fading = math.exp(-(now_s - self.at_s) / PACE_S)
        moved_us = fading * (self.moved_us or self.step_us) + watermark_us - self.watermark_us
        took_s = fading * (self.took_s or step_s) + now_s - self.at_s
        step_us = moved_us / took_s * step_s
        return replace(self, watermark_us=watermark_us, at_s=now_s, step_us=step_us, moved_us=moved_us, took_s=took_s)

    def _alone_s(self, now_s: float) -> float:
        """For so long the clock has gone on without an epoch."""
        return max(0.0, now_s - self.at_s) if self.seldom else 0.0
