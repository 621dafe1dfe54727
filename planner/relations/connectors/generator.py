"""`generator`: deterministic rows from a seed, at a rate that may change while it runs.

A column is made as its option `column.<name>` says:

    sequence            the row number
    uniform(a, b)       whole numbers a to b for integral types, else a <= x < b
    choice(a, b, ...)   one of the values, equally often
    zipf(n, s)          1 to n; k as often as the integral of x^-s from k to k + 1
    constant(x)         always x
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

from planner.relations.catalog import Relation, RelationKind
from planner.relations.connectors.common import EARLIEST, IDLE_TIMEOUT, LATEST, MAX_AHEAD, TIME_TEXT
from planner.relations.connectors.spec import ConnectorSpec, Traits
from planner.relations.options import (
    Option,
    OptionError,
    one_of,
    optional,
    parse_fraction,
    parse_positive_int,
    parse_timestamp,
)

RateChange = tuple[int, Fraction]
"""An instant in microseconds since 1970, and the rows per second from then on."""

MAX_ROWS_PER_SECOND = 5_000_000
"""Beyond it, the 64-bit arithmetic by which rows get their times would overflow."""
LEAD = timedelta(seconds=1)
"""A changed rate holds from so long after the change on, so that it has reached the sites by then."""
PRESETS = ("ysb", "posts", "sensors", "nexmark_person", "nexmark_auction", "nexmark_bid")

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
# Possessive, so that the time they take is linear in the text.
_CALL = re.compile(r"(\w+)\s*(?:\((.*)\))?", re.DOTALL)
_ARGUMENT = re.compile(r"(?:\s*+'((?:[^']|'')*+)'\s*+|([^,']*+))(?:,|\Z)")


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """How a column's values are made."""

    kind: str
    arguments: tuple[str, ...] = ()


def parse_column(text: str) -> ColumnSpec:
    """Take apart `kind(argument, ...)`. Raises ValueError when it is not one of the kinds, with the right arguments."""
    call = _CALL.fullmatch(text.strip())
    if call is None or call.group(1).lower() not in _TAKES:
        raise ValueError(text)
    kind = call.group(1).lower()
    arguments = tuple(_arguments(call.group(2) or ""))
    if not _TAKES[kind](arguments):
        raise ValueError(text)
    return ColumnSpec(kind, arguments)


def parse_rate_changes(text: str) -> tuple[RateChange, ...]:
    """From `[[since_us, rows_per_second], ...]`. Raises ValueError."""
    try:
        entries = json.loads(text, parse_float=parse_fraction)
    except RecursionError:
        raise ValueError(text) from None
    if not isinstance(entries, list) or not entries:
        raise ValueError(text)
    changes = tuple(_rate_change(entry) for entry in entries)
    if any(after < before for (before, _), (after, _) in pairwise(changes)):
        raise ValueError(text)
    return changes


def _rate_change(entry: object) -> RateChange:
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], int):
        raise ValueError(entry)
    if not isinstance(entry[1], int | Fraction):
        raise ValueError(entry)
    return entry[0], _within_limit(Fraction(entry[1]))


def _within_limit(rate: Fraction) -> Fraction:
    if not 0 <= rate <= MAX_ROWS_PER_SECOND:
        raise ValueError(rate)
    return rate


def _parse_share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise ValueError(text)
    return share


def _arguments(text: str) -> list[str]:
    found = []
    position = 0
    while position < len(text):
        match = _ARGUMENT.match(text, position)
        if match is None:
            raise ValueError(text)
        quoted, plain = match.groups()
        found.append(quoted.replace("''", "'") if quoted is not None else plain.strip())
        position = match.end()
    return found


def _are_bounds(arguments: tuple[str, ...]) -> bool:
    low, high = map(float, arguments)
    return -math.inf < low <= high < math.inf


def _are_zipf(arguments: tuple[str, ...]) -> bool:
    size, skew = arguments
    return size.isdigit() and int(size) >= 1 and float(skew) > 0


_TAKES: Mapping[str, Callable[[tuple[str, ...]], bool]] = {
    "sequence": lambda arguments: not arguments,
    "uniform": _are_bounds,
    "choice": bool,
    "zipf": _are_zipf,
    "constant": lambda arguments: len(arguments) == 1,
}
"""Whether a kind takes these arguments, by kind; some raise ValueError where it does not."""

RATE = Option(
    "rows_per_second",
    lambda text: _within_limit(parse_fraction(text)),
    f"a number from 0 to {MAX_ROWS_PER_SECOND}",
    Fraction(10),
    shown="`10`",
    summary="0 to 5,000,000; fractions are fine. May be changed while queries run.",
    alterable=True,
)
ROWS = Option(
    "rows",
    optional(parse_positive_int),
    "a whole number of at least 1",
    None,
    summary="The stream ends after so many rows. A table must give it.",
)
SEED = Option(
    "seed",
    optional(int),
    "a whole number",
    None,
    shown="made from the site's name",
    summary="Another seed, other values. Bindings with the same seed make the same rows.",
)
START: Option[datetime | None] = Option(
    "start",
    optional(parse_timestamp),
    TIME_TEXT,
    None,
    shown="time of `CREATE STREAM`",
    summary="Event time of row 0.",
)
STARTUP = Option(
    "startup",
    one_of(EARLIEST, LATEST),
    "earliest or latest",
    EARLIEST,
    shown=f"`{EARLIEST}`",
    summary="Where a query begins: `earliest` at row 0, `latest` at the row that is due now.",
)
NULL_FRACTION = Option(
    "column.<name>.null_fraction",
    _parse_share,
    "a number from 0 to 1",
    0.0,
    shown="`0`",
    summary="Share of NULL in the column, 0 to 1.",
)
COLUMN: Option[ColumnSpec | None] = Option(
    "column.<name>",
    optional(parse_column),
    "sequence, uniform(a, b), choice(a, b, ...), zipf(n, s) or constant(x)",
    None,
    shown="by type",
    summary="How a column's values are made.",
)
PRESET = Option(
    "preset",
    one_of(*PRESETS),
    ", ".join(PRESETS),
    "",
    summary="`ysb`, `posts`, `sensors`, `nexmark_person`, `nexmark_auction` or `nexmark_bid`: values by column name, "
    "see below.",
)
RATE_SCHEDULE: Option[tuple[RateChange, ...] | None] = Option(
    "rate_schedule",
    optional(parse_rate_changes),
    "a JSON list of [microseconds since 1970, rows per second], in the order of time",
    None,
    summary="All rates so far, as a JSON list of `[microseconds since 1970, rows per second]`. Kept by `ALTER STREAM`.",
    alterable=True,
)
_MAX_AHEAD = replace(
    MAX_AHEAD,
    summary="Accepted, so that one set of options fits all bindings of a stream, and without effect: generated rows "
    "are born when they are due. See `push`.",
    alterable=False,
)


def rate_changes(options: Mapping[str, str], created_at: datetime) -> tuple[RateChange, ...]:
    """The rates from row 0 on: by `rate_schedule`, else `rows_per_second` from `start` on, which is the declaration's
    time where it is not given.

    Raises:
        OptionError: an option is wrong.
    """
    written = RATE_SCHEDULE.of(options)
    if written is not None:
        return written
    start = START.of(options) or created_at
    return (((start - _EPOCH) // _MICROSECOND, RATE.of(options)),)


def _check(relation: Relation, options: Mapping[str, str]) -> None:
    """Columns that options name are there and are not the event time; a table has an end."""
    if relation.kind is RelationKind.TABLE and ROWS.name not in options:
        raise ROWS.missing()
    event_time = (relation.event_time or "").lower()
    families: tuple[Option[Any], ...] = (COLUMN, NULL_FRACTION)
    for option in families:
        for column in GENERATOR.family(option, options):
            name = option.named(column)
            if relation.column(column) is None:
                columns = ", ".join(c.name for c in relation.columns)
                raise OptionError(
                    f"option '{name}' names a column that is not there",
                    option=name,
                    at_name=True,
                    hint=f"columns are {columns}",
                )
            if column.lower() == event_time:
                raise OptionError(
                    f"column {column} is the event time and follows the rate",
                    option=name,
                    at_name=True,
                    hint=f"leave out '{name}'",
                )


def _altered(
    relation: Relation, options: Mapping[str, str], changes: Mapping[str, str], now: datetime
) -> Mapping[str, str]:
    """A change of rate is written into the schedule as of an instant, so that every task that reads the binding, now or
    after a restart, finds the same rows at the same offsets.
    """
    merged = {**options, **changes}
    if RATE.name not in changes or RATE_SCHEDULE.name in changes:
        return merged
    schedule = rate_changes(options, relation.created_at or now)
    # A generator that starts later changes when it starts: instants never go back.
    since_us = max((now + LEAD - _EPOCH) // _MICROSECOND, schedule[-1][0])
    entries = [*schedule, (since_us, RATE.of(changes))]
    return {**merged, RATE_SCHEDULE.name: json.dumps([[since, _number(rate)] for since, rate in entries])}


def _number(rate: Fraction) -> float:
    return int(rate) if rate.denominator == 1 else float(rate)


GENERATOR = ConnectorSpec(
    name="generator",
    roles=frozenset({RelationKind.STREAM, RelationKind.TABLE}),
    options=(
        RATE,
        ROWS,
        SEED,
        START,
        STARTUP,
        NULL_FRACTION,
        COLUMN,
        PRESET,
        _MAX_AHEAD,
        RATE_SCHEDULE,
        IDLE_TIMEOUT,
    ),
    traits=Traits(whole_rows=True, arrives=True, rate=RATE),
    check=_check,
    altered=_altered,
)
