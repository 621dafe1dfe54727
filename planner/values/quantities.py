"""Bandwidths, durations and ratios as people write them: `20Mbit/s`, `40ms`, `0.1%`.

Bandwidths are bits (kbit/s, Mbit/s, Gbit/s) or bytes (kB/s, MB/s, GB/s) per second, with decimal prefixes; durations
are us, ms, s or min; ratios are a percentage or a number from 0 to 1.
"""

from __future__ import annotations

import re
from datetime import timedelta

BANDWIDTH_FORM = "a bandwidth such as 20Mbit/s, 1Gbit/s, 500kbit/s or 10MB/s"
DURATION_FORM = "a time such as 40ms or 0.2s"
RATIO_FORM = "a share such as 0.5% or 0.005, at most 100%"

_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z/%]+)\s*", re.ASCII)
_LONGEST = 32
_BANDWIDTH_UNITS = {"bit/s": 0.125, "kbit/s": 125.0, "mbit/s": 125e3, "gbit/s": 125e6}
_BANDWIDTH_UNITS |= {"b/s": 1.0, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9}
_DURATION_UNITS = {
    "us": timedelta(microseconds=1),
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
}


def bandwidth_of(value: object) -> float | None:
    """Bytes per second, more than 0; None when it is no bandwidth."""
    amount, unit = _quantity(value)
    scale = _BANDWIDTH_UNITS.get(unit)
    return amount * scale if scale is not None and amount > 0 else None


def duration_of(value: object) -> timedelta | None:
    """A time of 0 or more; None when it is none."""
    amount, unit = _quantity(value)
    scale = _DURATION_UNITS.get(unit)
    return amount * scale if scale is not None else None


def ratio_of(value: object) -> float | None:
    """0 to 1; None when it is no ratio."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        ratio = float(value)
    else:
        amount, unit = _quantity(value)
        if unit != "%":
            return None
        ratio = amount / 100
    return ratio if 0 <= ratio <= 1 else None


def bandwidth_text(bytes_per_s: float) -> str:
    """As links are spoken of: bits per second, as in `20Mbit/s`."""
    bits_per_s = bytes_per_s * 8
    for unit, scale in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bits_per_s >= scale:
            return f"{bits_per_s / scale:.4g}{unit}"
    return f"{bits_per_s:.4g}bit/s"


def _quantity(value: object) -> tuple[float, str]:
    """The number and the unit in lower case; (0, "") when it is no quantity."""
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST else None
    return (float(match.group(1)), match.group(2).lower()) if match is not None else (0.0, "")
