"""Options of connectors: how one is declared, what its text may say, and the error of one that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import Any, Generic, TypeVar

from planner.values.errors import InvalidDefinitionError

T = TypeVar("T")

CONNECTOR = "connector"
"""The option of every binding that names its connector."""

NAME = "<name>"
"""In the name of an option: it stands for any text."""

_MAX_DURATION_CHARS = _MAX_NUMBER_CHARS = 100
_MAX_EXPONENT = 99
_EXPONENT = re.compile(r"e([+-]?\d+)", re.IGNORECASE)
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


class OptionError(InvalidDefinitionError):
    """An option that is unknown, missing or wrong; `option` is its name, `hint` says what would be right."""

    def __init__(self, message: str, *, option: str, at_name: bool = False, **told: Any) -> None:
        """`at_name`: the name is wrong, not the value. `told` is what a `PlannerError` takes."""
        super().__init__(message, **told)
        self.option = option
        self.at_name = at_name

    def __reduce__(self) -> tuple[object, ...]:
        told: dict[str, Any] = {"position": self.position, "found": self.found, "hint": self.hint, "ids": self.ids}
        return partial(type(self), option=self.option, at_name=self.at_name, **told), (self.message,)


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option of a connector, as it is declared.

    A name with `<name>` in it, as in `column.<name>`, stands for all options that have a text in its place.
    """

    name: str
    parse: Callable[[str], T]
    """The text's value. Raises ValueError."""
    allowed: str
    """What `parse` takes, as hints say it."""
    default: T
    """What counts without a text; of a required option, nothing."""
    summary: str = ""
    """What the option is for, in the words of its documentation."""
    shown: str = ""
    """The default in the words of the documentation; empty where there is none to show."""
    required: bool = False
    alterable: bool = False
    """Queries that run take over a changed value; without it, the change is for new queries."""
    secret: bool = False
    """It takes a reference in place of a value; see `planner.relations.references`."""

    def takes(self, name: str) -> bool:
        """Whether the option of that name is this one, or one of this family."""
        begin, family, end = self.name.partition(NAME)
        if not family:
            return name == self.name
        return len(name) > len(begin) + len(end) and name.startswith(begin) and name.endswith(end)

    def named(self, text: str) -> str:
        """The name of the family's option for a text in the place of `<name>`."""
        return self.name.replace(NAME, text)

    def of(self, options: Mapping[str, str]) -> T:
        """The option's value, or its default.

        Raises:
            OptionError: it is required and missing or empty, or the text is not a value of it.
        """
        text = options.get(self.name)
        if self.required and not text:
            raise self.missing()
        return self.default if text is None else self.value(self.name, text)

    def value(self, name: str, text: str) -> T:
        """The value of a text that was given under this name.

        Raises:
            OptionError: the text is not a value of it.
        """
        try:
            return self.parse(text)
        except ValueError:
            raise self.wrong(name, text) from None

    def missing(self) -> OptionError:
        """The error of a relation that needs the option and does not have it."""
        return OptionError(
            f"option '{self.name}' is missing", option=self.name, hint=f"'{self.name}' takes {self.allowed}"
        )

    def wrong(self, name: str, text: str) -> OptionError:
        """The error of a text that is not a value of the option."""
        return OptionError(f"option '{name}' is {text!r}", option=name, hint=f"'{name}' takes {self.allowed}")


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


def parse_fraction(text: str) -> Fraction:
    """A number as it is written, as in `0.1`. Raises ValueError, also for one whose digits would fill the memory."""
    exponent = _EXPONENT.search(text)
    if len(text) > _MAX_NUMBER_CHARS or (exponent and abs(int(exponent[1])) > _MAX_EXPONENT):
        raise ValueError(text)
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError(text) from None


def one_of(*values: str) -> Callable[[str], str]:
    """A parser that takes these words only."""

    def parse(text: str) -> str:
        word = text.strip().lower()
        if word not in values:
            raise ValueError(text)
        return word

    return parse


def optional(parse: Callable[[str], T]) -> Callable[[str], T | None]:
    """The same parser, for an option whose default is None."""
    return parse


def parse_path(text: str) -> str:
    """Raises ValueError for anything but an absolute path."""
    if not text.startswith("/") or "\0" in text:
        raise ValueError(text)
    return text
