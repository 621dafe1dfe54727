"""Keys that are the same for all rows of a unit of time: groups by `date(ts)` are complete when the day is over, and
groups by `ts` itself an instant later.

Days are those of UTC. Such a key is a window of the unit's length without `window(...)`. Sources send the window's
start; the key is computed of that where results are made, for it is the key of any row of the window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta

from planner.bind.binder import Window
from planner.sql.dialect import exp
from planner.sql.refusals import function_name
from planner.values.months import LONGEST, UNITS

_SECOND, _MINUTE, _HOUR, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_WEEK = timedelta(days=7)
_INSTANT = timedelta(microseconds=1)
"""No event time lies between two instants."""
_MONDAY = timedelta(days=4)
"""1970 began on a Thursday."""
_TRUNCATED = {"second": _SECOND, "minute": _MINUTE, "hour": _HOUR, "day": _DAY, "dd": _DAY, "week": _WEEK}
_MONTHS = {unit: months for months, unit in UNITS.items()} | {"mon": 1, "mm": 1, "yyyy": 12, "yy": 12}
_FORMAT = re.compile(r"(?:yyyy|y)\W*MM\W*dd(?P<hour>(?:\W|'\w*')*HH(?P<minute>\W*mm(?P<second>\W*ss)?)?)?")
_LONGER_FORMAT = re.compile(r"(?:yyyy|y)(?:\W*(?P<part>MM|M|QQ|Q))?")
_MONTHS_OF_FORMAT = {"MM": 1, "M": 1, "QQ": 3, "Q": 3, None: 12}


def calendar_window(keys: Iterable[exp.Expr], times: Sequence[exp.Expr]) -> Window | None:
    """The window that bound keys say, the shortest if several do; None: no key does. `times` are event times."""
    found = [window for key in keys if (window := _window(key, times)) is not None]
    return min(found, key=lambda window: window.length, default=None)


def _window(key: exp.Expr, times: Sequence[exp.Expr]) -> Window | None:
    if key.unnest() in times:
        return Window(key.unnest(), _INSTANT, _INSTANT)
    name, text = _call(key, times)
    length: timedelta | None = None
    if name == "date":
        length = _DAY
    elif name == "date_trunc":
        length = _TRUNCATED.get(text.lower())
    elif name == "date_format" and (parts := _FORMAT.fullmatch(text)) is not None:
        length = _SECOND if parts["second"] else _MINUTE if parts["minute"] else _HOUR if parts["hour"] else _DAY
    if length is None:
        return _of_months(key, name, text)
    offset = _MONDAY if length == _WEEK else timedelta(0)
    return Window(key.unnest(), length, length, offset)


def _of_months(key: exp.Expr, name: str, text: str) -> Window | None:
    """The window of a key that is the same for all rows of a month, a quarter or a year; None for any other."""
    months: int | None = None
    if name == "date_trunc":
        months = _MONTHS.get(text.lower())
    elif name == "date_format" and (parts := _LONGER_FORMAT.fullmatch(text)) is not None:
        months = _MONTHS_OF_FORMAT[parts["part"]]
    if months is None:
        return None
    longest = LONGEST[months]
    return Window(key.unnest(), longest, longest, months=months)


def _call(key: exp.Expr, times: Sequence[exp.Expr]) -> tuple[str, str]:
    """Return the function of a call over the event time, and its other argument; a cast to DATE is `date`.

    Both are empty for any other key.
    """
    bare = key.unnest()
    if isinstance(bare, exp.Cast):
        is_date = bare.to.is_type(exp.DType.DATE)
        return ("date", "") if is_date and bare.this.unnest() in times else ("", "")
    name, arguments = function_name(bare), bare.expressions if isinstance(bare, exp.Anonymous) else []
    if name in ("date", "to_date") and len(arguments) == 1 and arguments[0].unnest() in times:
        return "date", ""
    if name not in ("date_trunc", "date_format") or len(arguments) != 2:
        return "", ""
    time, text = arguments if name == "date_format" else reversed(arguments)
    is_text = isinstance(text, exp.Literal) and text.is_string
    return (name, text.name) if is_text and time.unnest() in times else ("", "")
