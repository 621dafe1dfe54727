"""The watermark of a port, from the watermarks of its channels.

- A channel that ended for good is not waited for; when all have, time has ended.
- An idle channel is not waited for; when all live ones are idle, the farthest of them counts: none will say more.
- A live channel without a watermark holds the port where it is.
- A port's watermark never goes back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from site_agent.channels.manifest import END_OF_TIME_US


@dataclass(frozen=True, slots=True)
class InputWatermark:
    """What one channel has published, up to the last epoch taken from it."""

    watermark_us: int | None = None
    idle: bool = False
    ended: bool = False
    """It ended for good, and all its epochs were taken."""


def port_watermark(previous_us: int | None, inputs: Collection[InputWatermark]) -> int | None:
    """The port's watermark in microseconds, None while there is none."""
    now_us = _unbounded(inputs)
    if now_us is None or previous_us is None:
        return previous_us if now_us is None else now_us
    return max(previous_us, now_us)


def _unbounded(inputs: Collection[InputWatermark]) -> int | None:
    live = [item for item in inputs if not item.ended]
    if not live:
        return END_OF_TIME_US if inputs else None
    active = [item.watermark_us for item in live if not item.idle]
    if not active:
        return max((item.watermark_us for item in live if item.watermark_us is not None), default=None)
    known = [watermark_us for watermark_us in active if watermark_us is not None]
    return min(known) if len(known) == len(active) else None
