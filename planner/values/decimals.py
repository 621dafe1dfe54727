"""Decimal types by their names in Spark SQL."""

from __future__ import annotations

import re
from typing import NamedTuple

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")

MAX_LONG_DIGITS = 18
"""Every number of so many digits, in units of its last, is a whole number of 64 bits."""


class Digits(NamedTuple):
    """The digits of a decimal type: all of them, and those behind the point."""

    precision: int
    scale: int


def digits_of(type_: str) -> Digits | None:
    """Return the digits of a type in capitals without blanks; None: it is no decimal."""
    found = _DECIMAL.fullmatch(type_)
    return Digits(int(found[1]), int(found[2])) if found is not None else None
