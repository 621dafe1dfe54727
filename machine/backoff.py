"""How long to wait before the next attempt."""

from __future__ import annotations

from collections.abc import Sequence


def delay_after(failures: int, delays_s: Sequence[float]) -> float:
    """The delay in seconds after this many earlier failures; once the delays run out, the last one is used again."""
    return delays_s[min(failures, len(delays_s) - 1)]
