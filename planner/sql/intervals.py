"""Literal intervals such as `10 seconds`."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from planner.values.months import UNITS as MONTH_UNITS

UNITS = {
    "MICROSECOND": timedelta(microseconds=1),
    "MILLISECOND": timedelta(milliseconds=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
    "WEEK": timedelta(weeks=1),
}
_PART = re.compile(r"\s*(\d+(?:\.\d{1,6})?)\s+([A-Za-z]+)\s*")
_MAX = timedelta(days=3650)
_MAX_DIGITS = 15


def parse_interval(text: str) -> timedelta | None:
    """The length of `10 seconds`, `1 hour 30 minutes`, `interval 1 day`; None when it is none of fixed length."""
    rest = re.sub(r"(?i)^\s*interval\s+", "", text)
    total, at = timedelta(0), 0
    while at < len(rest):
        match = _PART.match(rest, at)
        unit = UNITS.get(match.group(2).upper().removesuffix("S")) if match else None
        if match is None or unit is None or len(match.group(1)) > _MAX_DIGITS:
            return None
        total += float(match.group(1)) * unit if "." in match.group(1) else int(match.group(1)) * unit
        at = match.end()
    return total if at and total <= _MAX else None


def pane_of(length: timedelta, slide: timedelta) -> timedelta:
    """The longest part of which windows of that length, one of which begins every `slide`, are made up."""
    unit = timedelta(microseconds=1)
    return math.gcd(length // unit, slide // unit) * unit


def format_windows(
    length: timedelta,
    slide: timedelta,
    offset: timedelta = timedelta(0),
    *,
    cumulates: bool = False,
    months: int = 0,
) -> str:
    """The length of windows, how often one begins where that is not the length, and how far they are shifted; of
    cumulative windows how often one ends. Those of months have a name."""
    if months:
        return f"a {MONTH_UNITS[months]}"
    if cumulates:
        return f"up to {format_interval(length)} in steps of {format_interval(slide)}"
    every = f" every {format_interval(slide)}" if slide != length else ""
    shifted = f", shifted by {format_interval(offset)}" if offset else ""
    return f"{format_interval(length)}{every}{shifted}"


def format_interval(length: timedelta) -> str:
    """The shortest form with one unit, as in `10 seconds`."""
    for name in ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"):
        count, rest = divmod(length, UNITS[name])
        if not rest:
            return f"{count} {name.lower()}{'' if count == 1 else 's'}"
    raise ValueError(f"{length} has no form")
