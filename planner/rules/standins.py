"""Stand-ins: what is sent of a column that the query reads through functions alone, as `year(day)` does.

Two values of which the functions give the same make no difference to the result. All of these values have one stand-in:
a value of the column's own type of which the functions give what they give of the row's own value. The query's text
stays as it is. A stand-in is NULL where the value is, so the query may also ask for that.

A part of a text is shorter than the text, and days of a year that are all its first day compress to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from planner.sql.dialect import exp, name_node
from planner.values.names import INPUT_VIEW
from planner.values.scans import SparkExpression

_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""Each begins where one of those before it does, but for weeks and what comes before them."""
_NAMES = {
    **{unit: unit for unit in _UNITS},
    **dict.fromkeys(("YYYY", "YY"), "YEAR"),
    **dict.fromkeys(("MON", "MM"), "MONTH"),
    "DD": "DAY",
}
_OF_DAYS = {"Year": "YEAR", "Quarter": "QUARTER", "Month": "MONTH"}


def stand_in(column: str, kind: str, functions: Sequence[SparkExpression]) -> exp.Expr | None:
    """Return what a MAP sends instead of a column of the view `input`; None: the column itself.

    Args:
        column: its name.
        kind: its type in Spark, in capitals.
        functions: all that read it, each of the column and of literals.
    """
    maker = _MAKERS.get(kind)
    return maker(exp.Column(this=name_node(column), table=name_node(INPUT_VIEW)), functions) if maker else None


def _first_letters(column: exp.Expr, functions: Sequence[SparkExpression]) -> exp.Expr | None:
    """Return the longest of the beginnings of a text that the functions read."""
    lengths = []
    for function in functions:
        start, length = (_whole_number(argument) for argument in function.arguments[1:])
        if function.kind != "Substring" or start != 1 or length is None:
            return None
        lengths.append(length)
    numbers = map(exp.Literal.number, (1, max(lengths)))
    return exp.Anonymous(this="substring", expressions=[column, *numbers])


def _whole_number(value: SparkExpression) -> int | None:
    return int(value.text) if value.kind == "Literal" and value.text is not None and value.text.isdecimal() else None


def _first_day(column: exp.Expr, functions: Sequence[SparkExpression]) -> exp.Expr | None:
    unit = _finest({_OF_DAYS.get(f.kind) or _unit(f, "TruncDate", 1) for f in functions})
    if unit is None or _UNITS.index(unit) > _UNITS.index("WEEK"):
        return None
    return exp.Anonymous(this="trunc", expressions=[column, exp.Literal.string(unit)])


def _first_moment(column: exp.Expr, functions: Sequence[SparkExpression]) -> exp.Expr | None:
    unit = _finest({_unit(f, "TruncTimestamp", 0) for f in functions})
    return exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), column]) if unit else None


def _unit(function: SparkExpression, kind: str, place: int) -> str | None:
    """Return the unit to whose beginning a function goes back; None: it is another function, or gives NULL."""
    text = function.arguments[place].text if function.kind == kind else None
    return _NAMES.get(text.upper()) if text is not None else None


def _finest(units: Collection[str | None]) -> str | None:
    """Return the unit whose beginnings tell those of all others."""
    known = [unit for unit in _UNITS if unit in units]
    if len(known) < len(units) or (known[-1] == "WEEK" and len(known) > 1):
        return None
    return known[-1]


_MAKERS: Mapping[str, Callable[[exp.Expr, Sequence[SparkExpression]], exp.Expr | None]] = {
    "STRING": _first_letters,
    "DATE": _first_day,
    "TIMESTAMP": _first_moment,
}
