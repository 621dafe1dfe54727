"""Options of connectors: how they are declared and parsed, and those that are known when a relation is declared.

The options of the connector `push` and of sinks are checked with the declaration; the sites parse them by the same
rules when a task begins. Those of `files` and `generator` depend on more than their texts, and only sites check them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from planner.relations.catalog import Column, RelationKind

T = TypeVar("T")

CONNECTOR = "connector"
PUSH, PARQUET = "push", "parquet"
DEFAULT_IDLE_TIMEOUT = timedelta(seconds=30)
DEFAULT_FILE_BYTES = 64 * 1024 * 1024
DEFAULT_ROLL_INTERVAL_S = 60.0
EARLIEST, LATEST = "earliest", "latest"
PATH_TEXT = "the absolute path of a directory at the site"

_MAX_DURATION_CHARS = 100
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_UNITS = {
    "us": timedelta(microseconds=1),
    "microsecond": timedelta(microseconds=1),
    "ms": timedelta(milliseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "sec": timedelta(seconds=1),
    "second": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "minute": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "hour": timedelta(hours=1),
    "d": timedelta(days=1),
    "day": timedelta(days=1),
}
_BOOLEANS = {"true": True, "false": False}
_PARTITION_TYPES = frozenset({"STRING", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE"})
"""Types whose values make names of directories."""


class OptionError(ValueError):
    """An option that is unknown, missing or wrong; `name` says which, `hint` what would be right."""

    def __init__(self, name: str, message: str, hint: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.hint = hint
        self.unknown = unknown


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option: `parse` raises ValueError, and `allowed` says what it would have taken."""

    name: str
    parse: Callable[[str], T]
    allowed: str
    default: T
    secret: bool = False
    """It takes a reference in place of a value; see `planner.relations.secretoptions`."""

    def of(self, options: Mapping[str, str]) -> T:
        """The option's value, or its default.

        Raises:
            OptionError: the text is not a value of it.
        """
        text = options.get(self.name)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError:
            raise OptionError(
                self.name, f"option '{self.name}' is {text!r}", f"'{self.name}' takes {self.allowed}"
            ) from None


def refuse_unknown(options: Mapping[str, str], known: Sequence[str], *, prefixes: Sequence[str] = ()) -> None:
    """Raises OptionError for an option that is not known, with the one that may be meant."""
    for name in sorted(options):
        if name not in known and not any(name.startswith(p) for p in prefixes):
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"options are {', '.join(sorted(known))}"
            raise OptionError(name, f"there is no option '{name}'", hint, unknown=True)


def require(options: Mapping[str, str], name: str, *, allowed: str) -> str:
    """The text of an option that has no default.

    Raises:
        OptionError: it is missing or empty.
    """
    text = options.get(name, "")
    if not text:
        raise OptionError(name, f"option '{name}' is missing", f"'{name}' takes {allowed}")
    return text


def parse_duration(text: str) -> timedelta:
    """As in `5 seconds`, `500ms`, `1 min`, `1 hour 30 minutes`.

    Raises:
        ValueError: it is none of these, negative, longer than a timedelta holds, or a text of more than 100 characters.
    """
    rest = text.strip().lower()
    # The time that the search takes is the square of the length.
    parts = list(_DURATION.finditer(rest)) if len(rest) <= _MAX_DURATION_CHARS else []
    if not parts or _DURATION.sub("", rest).strip():
        raise ValueError(text)
    total = timedelta(0)
    for part in parts:
        unit = _UNITS.get(part.group(2)) or _UNITS.get(part.group(2).removesuffix("s"))
        if unit is None:
            raise ValueError(text)
        try:
            total += float(part.group(1)) * unit
        except OverflowError:
            raise ValueError(text) from None
    return total


def parse_timestamp(text: str) -> datetime:
    """An ISO 8601 instant; UTC when it names no zone. Raises ValueError."""
    instant = datetime.fromisoformat(text.strip())
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def parse_bool(text: str) -> bool:
    """Raises ValueError for anything but true and false."""
    value = _BOOLEANS.get(text.strip().lower())
    if value is None:
        raise ValueError(text)
    return value


def parse_positive_int(text: str) -> int:
    """Raises ValueError for anything but a whole number of at least 1."""
    value = int(text.replace("_", ""))
    if value < 1:
        raise ValueError(text)
    return value


def one_of(*values: str) -> Callable[[str], str]:
    """A parser that takes these words only."""

    def parse(text: str) -> str:
        word = text.strip().lower()
        if word not in values:
            raise ValueError(text)
        return word

    return parse


def _parse_rate(text: str) -> float | None:
    rate = float(text)
    if not 0 <= rate < float("inf"):
        raise ValueError(text)
    return rate


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(text)
    return names


def _parse_max_ahead(text: str) -> timedelta | None:
    return None if text.strip().lower() == "none" else parse_duration(text)


def _parse_positive_duration_s(text: str) -> float:
    seconds = parse_duration(text).total_seconds()
    if seconds <= 0:
        raise ValueError(text)
    return seconds


IDLE_TIMEOUT = Option("idle_timeout", parse_duration, "a duration as in '30 seconds'", DEFAULT_IDLE_TIMEOUT)
COMMON_OPTIONS = (CONNECTOR, IDLE_TIMEOUT.name)
"""Names that every connector of streams takes."""

RETENTION = Option("retention", parse_duration, "a duration as in '1 hour'", timedelta(days=7))
RETENTION_BYTES = Option("retention_bytes", parse_positive_int, "a whole number of bytes", 1024 * 1024 * 1024)
MAX_AHEAD: Option[timedelta | None] = Option(
    "max_ahead", _parse_max_ahead, "a duration as in '10 minutes', or none", timedelta(minutes=10)
)
FROM = Option("from", one_of(EARLIEST, LATEST), "earliest or latest", EARLIEST)
RATE: Option[float | None] = Option("rows_per_second", _parse_rate, "a number of at least 0", None)

FILE_BYTES = Option(
    "target_file_bytes", parse_positive_int, "a whole number of bytes, at least 1", default=DEFAULT_FILE_BYTES
)
ROLL_INTERVAL = Option(
    "roll_interval", _parse_positive_duration_s, "a duration above 0 as in '1 minute'", default=DEFAULT_ROLL_INTERVAL_S
)
COMPRESSION = Option("compression", one_of("zstd", "snappy", "gzip", "none"), "zstd, snappy, gzip or none", "zstd")
PARTITION_BY: Option[tuple[str, ...]] = Option(
    "partition_by", _parse_names, "names of columns as in 'country, day'", ()
)
PATH = "path"


OPTIONS: dict[str, Sequence[Option[Any]]] = {
    PUSH: (RETENTION, RETENTION_BYTES, MAX_AHEAD, FROM, RATE, IDLE_TIMEOUT),
    PARQUET: (FILE_BYTES, ROLL_INTERVAL, COMPRESSION, PARTITION_BY),
}
"""Options by connector, as far as they have a type of their own."""
PARQUET_OPTIONS = (CONNECTOR, PATH, *(option.name for option in OPTIONS[PARQUET]))


def check_push(options: Mapping[str, str]) -> None:
    """Raises OptionError naming the option of a pushed stream that is unknown or wrong."""
    refuse_unknown(options, (CONNECTOR, *(option.name for option in OPTIONS[PUSH])))
    for option in OPTIONS[PUSH]:
        option.of(options)


def check_parquet(options: Mapping[str, str]) -> None:
    """Raises OptionError naming the option of a sink `parquet` that is unknown, missing or wrong."""
    refuse_unknown(options, PARQUET_OPTIONS)
    path = require(options, PATH, allowed=PATH_TEXT)
    if not path.startswith("/") or "\0" in path:
        raise OptionError(PATH, f"option '{PATH}' is {path!r}", f"'{PATH}' takes {PATH_TEXT}")
    for option in OPTIONS[PARQUET]:
        option.of(options)


SINKS: Mapping[str, Callable[[Mapping[str, str]], None]] = {PARQUET: check_parquet}
"""What checks the options of a sink, by connector."""


def check_binding(kind: RelationKind, columns: Sequence[Column], options: Mapping[str, str]) -> None:
    """Whether the options of a binding are possible, as far as that shows without a site.

    Raises:
        OptionError: one is unknown, missing or wrong.
    """
    connector = options.get(CONNECTOR, "")
    if kind is RelationKind.SINK:
        _check_sink(connector, columns, options)
    elif kind is RelationKind.STREAM and connector == PUSH:
        check_push(options)


def _check_sink(connector: str, columns: Sequence[Column], options: Mapping[str, str]) -> None:
    check = SINKS.get(connector)
    if check is None:
        close = get_close_matches(connector, SINKS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"connectors of sinks: {', '.join(SINKS)}"
        raise OptionError(CONNECTOR, f"no sink has the connector '{connector}'", hint)
    check(options)
    names = PARTITION_BY.of(options)
    known = {column.name: column.type for column in columns}
    if not known or not names:
        return
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"its columns are {', '.join(known)}"
            raise OptionError(
                PARTITION_BY.name, f"the sink is partitioned by {name}, which is none of its columns", hint
            )
        if known[name].upper() not in _PARTITION_TYPES:
            message = f"the sink is partitioned by {name}, which is {known[name]}"
            raise OptionError(
                PARTITION_BY.name, message, "texts, whole numbers, BOOLEAN and DATE make names of directories"
            )
    if len(names) == len(known):
        message = "the sink is partitioned by all its columns, and its files would have none"
        raise OptionError(PARTITION_BY.name, message, "leave one out")
