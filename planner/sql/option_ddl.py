"""Options of connectors as they stand in a statement: `('key' = 'value', ...)`, with the place of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from planner.relations.connectors.table import SecretOptionError
from planner.relations.options import OptionError
from planner.sql.cursor import Cursor
from planner.values.errors import InvalidDefinitionError, Position

Place = tuple[Position, str]
"""A place in the text, and what is found there."""


@dataclass(frozen=True, slots=True)
class WrittenOption:
    """An option as it stands in the text."""

    value: str
    name_at: Place
    value_at: Place


WrittenOptions = Mapping[str, WrittenOption]
"""By name."""


def parse_options(cursor: Cursor) -> dict[str, WrittenOption]:
    options: dict[str, WrittenOption] = {}
    cursor.expect("(", hint="Options are written WITH ('key' = 'value', ...).")
    while not cursor.take(")"):
        place, found = cursor.position, cursor.found
        key = cursor.string("an option's name")
        cursor.expect("=")
        if key in options:
            raise InvalidDefinitionError(
                f"option {key} is given twice", position=place, found=found, hint="Give each option once."
            )
        value_at = (cursor.position, cursor.found)
        options[key] = WrittenOption(cursor.string("the option's value"), (place, found), value_at)
        if not cursor.take(",") and not cursor.at(")"):
            raise cursor.error(", or ) is expected")
    return options


def values_of(options: WrittenOptions) -> dict[str, str]:
    return {name: option.value for name, option in options.items()}


@contextmanager
def at_option(options: WrittenOptions, otherwise: Place) -> Iterator[None]:
    """A block whose OptionErrors get the place of their option; `otherwise`, that of a statement without it."""
    try:
        yield
    except OptionError as error:
        written = options.get(error.option)
        place = otherwise if written is None else written.name_at if error.at_name else written.value_at
        error.position, error.found = place
        if isinstance(error, SecretOptionError):
            # The text there may be a password.
            error.found = ""
        raise
