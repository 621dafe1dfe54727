"""Puts values into a statement in the place of its question marks, as literals of SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal

from selat.dbapi.errors import DataError, ProgrammingError

_PARTS = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | \?""", re.VERBOSE | re.DOTALL
)
"""Texts, quoted names and comments, in which a question mark is none of ours; and question marks."""


def bound(statement: str, values: Sequence[object]) -> str:
    """The statement with the values in it.

    Raises:
        ProgrammingError: there are more values than question marks, or fewer.
        DataError: a value has no literal.
    """
    left = iter(values)
    taken = 0

    def put(found: re.Match[str]) -> str:
        nonlocal taken
        if found.group() != "?":
            return found.group()
        taken += 1
        return literal(_next(left, taken))

    made = _PARTS.sub(put, statement)
    if taken < len(values):
        raise ProgrammingError(f"{len(values)} values are given, and the statement has {taken} question marks")
    return made


def literal(value: object) -> str:
    """The value as SQL. Raises DataError when it has no literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value) if -(2**31) < value < 2**31 else f"CAST('{value}' AS {_whole(value)})"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"X'{bytes(value).hex().upper()}'"
    return _moment(value)


def _moment(value: object) -> str:
    if isinstance(value, datetime):
        # An instant; one without a zone is taken as it is written.
        aware = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"CAST('{aware.isoformat(' ')}' AS {kind})"
    if isinstance(value, date):
        return f"CAST('{value.isoformat()}' AS DATE)"
    if isinstance(value, time) and value.tzinfo is None:
        return f"CAST('{value.isoformat('microseconds')}' AS TIME)"
    if isinstance(value, list | tuple):
        return f"array({', '.join(map(literal, value))})"
    raise DataError(f"a value of the type {type(value).__name__} cannot be put into a statement")


def _next(values: Iterator[object], number: int) -> object:
    try:
        return next(values)
    except StopIteration:
        raise ProgrammingError(f"the statement has a question mark {number}, and there is no value for it") from None


def _whole(value: int) -> str:
    if -(2**63) <= value < 2**63:
        return "BIGINT"
    if len(str(abs(value))) > 38:
        raise DataError(f"{str(value)[:20]}... has more than 38 digits")
    return "DECIMAL(38,0)"


def _float(value: float) -> str:
    if math.isfinite(value):
        return f"CAST('{value!r}' AS DOUBLE)"
    return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"


def _decimal(value: Decimal) -> str:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise DataError(f"{value} is no decimal number of SQL")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 38:
        raise DataError(f"{value} has more than 38 digits")
    return f"CAST('{value:f}' AS DECIMAL({precision},{scale}))"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
