"""The form of a connector's declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeVar

from planner.relations.catalog import Relation, RelationKind
from planner.relations.options import CONNECTOR, NAME, Option, OptionError
from planner.relations.references import referred_secret

T = TypeVar("T")

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Traits:
    """What the planner and the members have to know of a connector."""

    has_log: bool = False
    """Clients push rows to the site's agent, which keeps them in a log from the declaration on."""
    whole_rows: bool = False
    """Which rows there are does not depend on the columns that a query reads."""
    arrives: bool = False
    """It notes for good when each row arrived, gives that as `ARRIVED`, and promises how far that has come."""
    rate: Option[Any] | None = None
    """The option that says how many rows per second are to be expected; its value is a number, or None."""


def _nothing(relation: Relation, options: Options) -> None:
    """The check of a connector whose options are right if each of them is."""


def _merged(relation: Relation, options: Options, changes: Options, now: datetime) -> Options:
    return {**options, **changes}


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """A connector, as far as that shows without a site."""

    name: str
    roles: frozenset[RelationKind]
    """The kinds of relations that it is for."""
    options: tuple[Option[Any], ...]
    """Its options but `connector`. Of two families that have the same name among them, the first takes it."""
    traits: Traits = Traits()
    check: Callable[[Relation, Options], None] = _nothing
    """Checks the options of a binding together, and with the relation, when each of them is right. Raises OptionError.
    The relation is as it is declared; at a site it has no bindings.
    """
    altered: Callable[[Relation, Options, Options, datetime], Options] = _merged
    """The options of a binding (the first) after a change (the second) at an instant. Raises OptionError."""

    def option(self, name: str) -> Option[Any] | None:
        """The option, or the family, of that name; None: there is none."""
        return next((option for option in self.options if option.takes(name)), None)

    def family(self, family: Option[T], options: Options) -> dict[str, T]:
        """The values of the options of a family, by what stands for `<name>`.

        Raises:
            OptionError: a text is not a value of it.
        """
        begin, _, end = family.name.partition(NAME)
        return {
            name[len(begin) : len(name) - len(end)]: family.value(name, text)
            for name, text in options.items()
            if self.option(name) is family
        }

    @property
    def fixed(self) -> tuple[str, ...]:
        """Names of the options that a query keeps as they were when it began."""
        return tuple(option.name for option in self.options if not option.alterable)

    def secret(self, name: str) -> bool:
        """Whether the option of that name takes a reference to a secret."""
        found = self.option(name)
        return found is not None and found.secret

    def check_options(self, relation: Relation, options: Options) -> None:
        """Whether a binding of the relation may have these options.

        Raises:
            OptionError: one is unknown, missing or wrong.
        """
        given = {name: self._known(name) for name in sorted(options.keys() - {CONNECTOR})}
        for option in self.options:
            if option.required and not options.get(option.name):
                raise option.missing()
        for name, option in given.items():
            # Where a secret is still a reference, its value is the site's to check.
            if not (option.secret and referred_secret(options[name])):
                option.value(name, options[name])
        self.check(relation, options)

    def _known(self, name: str) -> Option[Any]:
        found = self.option(name)
        if found is None:
            known = [CONNECTOR, *(option.name for option in self.options)]
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"options are {', '.join(sorted(known))}"
            raise OptionError(f"there is no option '{name}'", option=name, at_name=True, hint=hint)
        return found
