"""How long to wait before the next attempt."""

from __future__ import annotations

from collections.abc import Sequence


def delay_after(failures: int, delays_s: Sequence[float]) -> float:
    """The delay, in seconds, after so many failures before this one; the last delay is also that of all later ones."""
    return delays_s[min(failures, len(delays_s) - 1)]
