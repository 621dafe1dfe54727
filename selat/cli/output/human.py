"""Numbers, sizes and times as people read them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from machine.terminal import printable
from selat.cli.base import jsontext
from selat.values import END_OF_TIME

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count_bytes: float) -> str:
    """`1.5 MB`; units are powers of 1000."""
    value, unit = float(count_bytes), 0
    while round(value, 1) >= 1000 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {_BYTE_UNITS[unit]}"


def money(amount: float, currency: str) -> str:
    """`1,234.50 USD`; small amounts with as many decimals as it takes to see them."""
    if amount == 0 or amount >= 0.01:
        return f"{amount:,.2f} {currency}"
    return f"{amount:.2g} {currency}" if amount >= 0.0001 else f"under 0.0001 {currency}"


def rate(count_per_s: float) -> str:
    """`12.5/s`"""
    return f"{count_per_s:,.1f}/s"


def count(number: int) -> str:
    """`1,234,567`"""
    return f"{number:,}"


def duration(length: timedelta) -> str:
    """The two leading units: `250 ms`, `3.5 s`, `2 min 5 s`, `1 h 3 min`, `2 d 4 h`."""
    seconds = length.total_seconds()
    if seconds < 0:
        return "-" + duration(-length)
    if seconds < 1:
        return "0 s" if seconds == 0 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + " s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return _two(minutes, "min", rest, "s")
    hours, minutes = divmod(minutes, 60)
    return _two(hours, "h", minutes, "min") if hours < 24 else _two(hours // 24, "d", hours % 24, "h")


def instant(value: datetime | None) -> str:
    """`2013-01-01 05:00:00`, in UTC, with as many decimals as it has; `-` when there is none."""
    if value is None:
        return "-"
    if value == END_OF_TIME:
        return "end"
    utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    text = utc.isoformat(sep=" ")
    return text.rstrip("0") if utc.microsecond else text


def cell(value: Any) -> str:
    """Any result value in one line of a table."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{printable(str(k))}: {cell(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(cell, value)) + "]"
    return str(value) if isinstance(value, (int, float)) else jsontext.dumps(value).strip('"')


def one_line(text: str, width: int) -> str:
    """Space squeezed, cut to a width."""
    squeezed = " ".join(text.split())
    return squeezed if len(squeezed) <= width else squeezed[: width - 1] + "…"


def bits(bytes_per_s: float) -> str:
    """A rate of bytes in bits per second, the unit of links."""
    bits_per_s = bytes_per_s * 8
    for unit, scale in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bits_per_s >= scale:
            return f"{bits_per_s / scale:.3g} {unit}"
    return f"{bits_per_s:.0f} bit/s"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"
