"""Connector options at a site: declared and parsed as `planner.relations.options` says, with errors of the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, TypeVar

from planner.relations import options as declared
from planner.relations.options import (
    COMMON_OPTIONS,
    one_of,
    parse_bool,
    parse_duration,
    parse_positive_int,
    parse_timestamp,
)
from site_agent.base.errors import ConnectorError

__all__ = [
    "COMMON_OPTIONS",
    "IDLE_TIMEOUT",
    "MAX_AHEAD",
    "Checked",
    "Option",
    "idle_timeout_of",
    "one_of",
    "parse_bool",
    "parse_duration",
    "parse_positive_int",
    "parse_timestamp",
    "refuse_unknown",
    "refused",
    "require",
    "site_option",
]

T = TypeVar("T")


@contextmanager
def refused() -> Iterator[None]:
    """What is wrong with an option, as the agent says it. Raises ConnectorError."""
    try:
        yield
    except declared.OptionError as error:
        raise ConnectorError(error.message, hint=error.hint) from None


class Option(declared.Option[T]):
    """One option: `parse` raises ValueError, and `allowed` says what it would have taken."""

    __slots__ = ()

    def of(self, options: Mapping[str, str]) -> T:
        """The option's value, or its default.

        Raises:
            ConnectorError: the text is not a value of it.
        """
        with refused():
            return declared.Option.of(self, options)


def site_option(option: declared.Option[T]) -> Option[T]:
    """An option that the planner knows, with errors of the agent."""
    return Option(option.name, option.parse, option.allowed, option.default, option.secret)


class Checked(Protocol):
    """An option of any type."""

    @property
    def name(self) -> str: ...

    def of(self, options: Mapping[str, str]) -> object: ...


def refuse_unknown(options: Mapping[str, str], known: Sequence[str], *, prefixes: Sequence[str] = ()) -> None:
    """Raises ConnectorError for an option that is not known, with the one that may be meant."""
    with refused():
        declared.refuse_unknown(options, known, prefixes=prefixes)


def require(options: Mapping[str, str], name: str, *, allowed: str) -> str:
    """The text of an option that has no default.

    Raises:
        ConnectorError: it is missing or empty.
    """
    with refused():
        return declared.require(options, name, allowed=allowed)


IDLE_TIMEOUT = site_option(declared.IDLE_TIMEOUT)
MAX_AHEAD = site_option(declared.MAX_AHEAD)


def idle_timeout_of(options: Mapping[str, str]) -> timedelta:
    """After so long without a row, a source's watermark is not waited for.

    Raises:
        ConnectorError: the option is not a duration.
    """
    return IDLE_TIMEOUT.of(options)
