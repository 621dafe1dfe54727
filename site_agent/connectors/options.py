"""Connector options: how they are declared, checked and parsed, the same way in every connector."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Generic, Protocol, TypeVar

from site_agent.connectors import DEFAULT_IDLE_TIMEOUT
from site_agent.errors import ConnectorError

T = TypeVar("T")

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


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option: `parse` raises ValueError, and `allowed` says what it would have taken."""

    name: str
    parse: Callable[[str], T]
    allowed: str
    default: T

    def of(self, options: Mapping[str, str]) -> T:
        """The option's value, or its default.

        Raises:
            ConnectorError: the text is not a value of it.
        """
        text = options.get(self.name)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError:
            raise ConnectorError(
                f"option '{self.name}' is {text!r}", hint=f"'{self.name}' takes {self.allowed}"
            ) from None


class Checked(Protocol):
    """An option of any type."""

    @property
    def name(self) -> str: ...

    def of(self, options: Mapping[str, str]) -> object: ...


def refuse_unknown(options: Mapping[str, str], known: Sequence[str], *, prefixes: Sequence[str] = ()) -> None:
    """Raises ConnectorError for an option that is not known, with the one that may be meant."""
    for name in sorted(options):
        if name not in known and not any(name.startswith(p) for p in prefixes):
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"options are {', '.join(sorted(known))}"
            raise ConnectorError(f"there is no option '{name}'", hint=hint)


def require(options: Mapping[str, str], name: str, *, allowed: str) -> str:
    """The text of an option that has no default.

    Raises:
        ConnectorError: it is missing or empty.
    """
    text = options.get(name, "")
    if not text:
        raise ConnectorError(f"option '{name}' is missing", hint=f"'{name}' takes {allowed}")
    return text


def parse_duration(text: str) -> timedelta:
    """As in `5 seconds`, `500ms`, `1 min`, `1 hour 30 minutes`.

    Raises:
        ValueError: it is none of these, negative, or longer than a timedelta holds.
    """
    rest = text.strip().lower()
    parts = list(_DURATION.finditer(rest))
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


IDLE_TIMEOUT = Option("idle_timeout", parse_duration, "a duration as in '30 seconds'", DEFAULT_IDLE_TIMEOUT)
COMMON_OPTIONS = ("connector", IDLE_TIMEOUT.name)
"""Names that every connector takes."""


def idle_timeout_of(options: Mapping[str, str]) -> timedelta:
    """After so long without a row, a source's watermark is not waited for.

    Raises:
        ConnectorError: the option is not a duration.
    """
    return IDLE_TIMEOUT.of(options)
