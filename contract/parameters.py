"""Values in a SQL text: literals that mean them, in the place of its parameters, which are `?` or `:name`.

Spark's lexer decides where a text or a comment ends, and this module must read a statement as the lexer does: within a
text, the quotes of a literal would let a value become SQL. Forms that are rare and hard to read are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from planner.values.literals import quoted_text

_UNITS = re.compile(
    r"""[rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*+' | "(?:[^"\\]|\\.|"")*+" | `(?:[^`]|``)*+`
      | --(?:\\\n|[^\r\n])*+ | /\*\+ | (?P<comment>/\*.*?\*/) | (?P<refused>['"`] | /\* | \$\w*\$ | \d[\w.]*+['"])
      | (?P<mark>\? | :(?:\w*[^\W\d]\w*|`(?:[^`]|``)++`)) | :: | \w++ | .""",
    re.VERBOSE | re.DOTALL,
)
"""The units of Spark's lexer that matter here: texts, quoted names, comments, parameters, words, and single characters.

Refused are what has no end, a comment within a comment, a text in dollars, and a number right before a quote.
"""

_BEFORE_PATH = re.compile(r"""[\w)\]'"`]""")
"""Right behind these, a colon begins a path into a column or stands in a type, and is no parameter."""


class ParameterError(ValueError):
    """The values do not fit the parameters of a statement; `condition` is Spark's name for the error."""

    def __init__(self, message: str, condition: str) -> None:
        super().__init__(message)
        self.condition = condition


class NoLiteralError(ValueError):
    """A value has no literal in SQL."""


def bound(statement: str, positional: Sequence[str] = (), named: Mapping[str, str] | None = None) -> str:
    """The statement with literals in the place of its parameters; those that it does not name are left out.

    Args:
        statement: one statement, or several.
        positional: the literals for its question marks, in order; empty: it has none.
        named: the literals for its `:name`, by exact name.

    Raises:
        ParameterError: a parameter has no value, or the statement has a form that is refused here.
    """
    made, last, number = [], 0, 0
    for start, end in _marks(statement):
        mark = statement[start:end]
        if mark == "?":
            number += 1
            value = positional[number - 1] if number <= len(positional) else None
        else:
            value = (named or {}).get(_name(mark))
        if value is None:
            what = f"question mark {number}" if mark == "?" else f"parameter {mark}"
            raise ParameterError(f"there is no value for {what} of the statement", "UNBOUND_SQL_PARAMETER")
        made += [statement[last:start], *_apart(value, statement[start - 1 : start], statement[end : end + 1])]
        last = end
    return "".join((*made, statement[last:]))


def question_marks(statement: str) -> int:
    """How many values a statement takes by position; raises ParameterError as `bound` does."""
    return sum(statement[start:end] == "?" for start, end in _marks(statement))


def literal(value: object) -> str:
    """The value as SQL. Raises NoLiteralError."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value) if -(2**31) <= value < 2**31 else cast(str(value), _whole(value))
    if isinstance(value, float):
        return floating(value, "DOUBLE")
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, str):
        return quoted_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"X'{bytes(value).hex().upper()}'"
    if isinstance(value, list | tuple):
        return f"array({', '.join(map(literal, value))})"
    return _moment(value)


def cast(text: str, kind: str) -> str:
    """The value of that type which Spark reads in the text."""
    return f"CAST({quoted_text(text)} AS {kind})"


def floating(value: float, kind: str) -> str:
    """A floating-point number as SQL, those that are no numbers included."""
    if math.isfinite(value):
        return cast(repr(value), kind)
    return cast("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity", kind)


def _decimal(value: Decimal) -> str:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise NoLiteralError(f"{value} is no decimal number of SQL")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 38:
        raise NoLiteralError(f"{value} has more than 38 digits")
    return cast(f"{value:f}", f"DECIMAL({precision},{scale})")


def _moment(value: object) -> str:
    if isinstance(value, datetime):
        # An instant, whatever the session's time zone is; one without a zone is taken as it is written.
        aware = value if value.tzinfo is None else value.astimezone(UTC)
        return cast(aware.isoformat(" "), "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP_LTZ")
    if isinstance(value, date):
        return cast(value.isoformat(), "DATE")
    if isinstance(value, time) and value.tzinfo is None:
        return cast(value.isoformat("microseconds"), "TIME")
    if isinstance(value, timedelta):
        return interval(value // timedelta(microseconds=1))
    raise NoLiteralError(f"a value of the type {type(value).__name__} cannot be put into a statement")


def interval(microseconds: int) -> str:
    """A length of time as SQL."""
    seconds, micros = divmod(abs(microseconds), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    sign = "-" if microseconds < 0 else ""
    return f"INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{micros:06}' DAY TO SECOND"


def _whole(value: int) -> str:
    if -(2**63) <= value < 2**63:
        return "BIGINT"
    if len(str(abs(value))) > 38:
        raise NoLiteralError(f"{str(value)[:20]}... has more than 38 digits")
    return "DECIMAL(38,0)"


def _marks(statement: str) -> list[tuple[int, int]]:
    """Where the parameters of a statement begin and end."""
    found = []
    for unit in _UNITS.finditer(statement):
        start, end = unit.span()
        if unit["refused"] or "/*" in (unit["comment"] or "")[2:]:
            line = statement.count("\n", 0, start) + 1
            column = start - statement.rfind("\n", 0, start)
            raise ParameterError(
                f"a statement with parameters cannot have this: {statement[start : start + 20]} "
                f"(line {line}, column {column})",
                "PARSE_SYNTAX_ERROR",
            )
        if unit["mark"] and (unit["mark"] == "?" or not _BEFORE_PATH.match(statement, max(start - 1, 0), start)):
            found.append((start, end))
    return found


def _name(mark: str) -> str:
    return mark[2:-1].replace("``", "`") if mark[1] == "`" else mark[1:]


def _apart(value: str, before: str, behind: str) -> tuple[str, str, str]:
    """The literal with blanks where it would run into its neighbours: two signs would begin a comment."""
    return "" if before in " \n\t(," else " ", value, "" if behind in " \n\t)," else " "
