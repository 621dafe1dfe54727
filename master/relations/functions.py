"""Python functions: the rules for declaring and dropping them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from machine.clock import Clock
from master.analysis.spark import Analyzer, RefusedStatementError
from master.base.errors import FunctionExistsError, FunctionInUseError, FunctionsRefusedError, InvalidRequestError
from master.base.logs import line
from master.records.ids import did_you_mean
from master.relations.catalog import CatalogManager
from master.store import RelationStore
from planner.relations.catalog import Function
from planner.sql.pyfunctions import checked_function
from planner.values.errors import InvalidFunctionError, UnknownFunctionError

logger = logging.getLogger(__name__)

LiveCallers = Callable[[str], tuple[str, ...]]
"""Ids of the live queries that call the Python function of that name."""


@dataclass(frozen=True, slots=True)
class FunctionParts:
    """The parts that the function manager uses."""

    store: RelationStore
    catalog: CatalogManager
    analyzer: Analyzer
    clock: Clock
    live_callers: LiveCallers
    allowed: bool = True
    """False: no function may be created."""


class FunctionManager:
    """The only writer of functions. Running queries keep the versions in their plans."""

    def __init__(self, parts: FunctionParts) -> None:
        self._store = parts.store
        self._catalog = parts.catalog
        self._analyzer = parts.analyzer
        self._clock = parts.clock
        self._live_callers = parts.live_callers
        self._allowed = parts.allowed

    def all(self) -> tuple[Function, ...]:
        """All functions, by name."""
        return tuple(function for _, function in sorted(self._catalog.snapshot.functions.items()))

    def get(self, name: str) -> Function:
        """The function of that name. Raises UnknownFunctionError."""
        function = self._catalog.snapshot.functions.get(name.lower())
        if function is None:
            raise _unknown(name, [f.name for f in self.all()])
        return function

    async def create(
        self, function: Function, *, or_replace: bool = False, if_not_exists: bool = False
    ) -> tuple[Function, bool]:
        """Declare a function; returns it, and whether it is new.

        Raises:
            FunctionsRefusedError: this master refuses functions.
            InvalidRequestError: both are asked for.
            InvalidFunctionError: the definition or its module is wrong, or a site cannot load it.
            FunctionExistsError: the name is taken, and it is not to be replaced.
            NoSiteAvailableError: nobody can load it now.
        """
        if not self._allowed:
            raise FunctionsRefusedError(
                f"function {function.name}: this master refuses Python functions, which run with the agents' rights",
                hint="start the master with --python-functions allow",
                ids={"function": function.name},
            )
        if or_replace and if_not_exists:
            raise InvalidRequestError(
                "a function is either to be replaced or to be kept", hint="set or_replace or if_not_exists, not both"
            )
        checked = checked_function(function)
        found = self._existing(checked, or_replace=or_replace, if_not_exists=if_not_exists)
        if found is not None:
            return found, False
        await self._load(checked)
        # Another caller may have declared one while a site loaded this one.
        found = self._existing(checked, or_replace=or_replace, if_not_exists=if_not_exists)
        if found is not None:
            return found, False
        made = replace(checked, created_at=self._clock.now())
        self._store.put_function(made)
        self._catalog.take_functions({**self._catalog.snapshot.functions, made.name.lower(): made})
        logger.info(line("function created", function=made.name, version=made.versioned_name, file=made.file))
        return made, True

    def drop(self, name: str, *, if_exists: bool = False) -> bool:
        """Drop a function; returns whether it existed.

        Raises:
            UnknownFunctionError
            FunctionInUseError: a live query or a view calls it, in whichever version.
        """
        functions = self._catalog.snapshot.functions
        if if_exists and name.lower() not in functions:
            return False
        function = self.get(name)
        if queries := self._live_callers(function.name):
            raise _in_use(function, ", ".join(queries), f"CANCEL QUERY {queries[0]}", {"query": queries[0]})
        if views := self._catalog.views_calling(function):
            said = ", ".join(f"view {view}" for view in views)
            raise _in_use(function, said, f"DROP VIEW {views[0]}", {"view": views[0]})
        self._store.delete_function(function.name)
        self._catalog.take_functions({key: f for key, f in functions.items() if f is not function})
        logger.info(line("function dropped", function=function.name))
        return True

    def _existing(self, function: Function, *, or_replace: bool, if_not_exists: bool) -> Function | None:
        existing = self._catalog.snapshot.functions.get(function.name.lower())
        if existing is None or or_replace:
            return None
        if if_not_exists:
            return existing
        raise FunctionExistsError(
            f"function {existing.name} exists already",
            hint="CREATE OR REPLACE FUNCTION replaces it; queries that run keep the one they began with",
            ids={"function": existing.name},
        )

    async def _load(self, function: Function) -> None:
        nulls = ", ".join(f"CAST(NULL AS {p.type})" for p in function.parameters)
        try:
            await self._analyzer.analyze({}, f"SELECT {function.name}({nulls}) AS value", (function,), load=True)
        except RefusedStatementError as refused:
            raise InvalidFunctionError(
                f"function {function.name}: {refused.message}",
                hint="the packages that it imports must be installed at every site where it is used",
                ids={"function": function.name},
            ) from refused


def _in_use(function: Function, users: str, first: str, ids: dict[str, str]) -> FunctionInUseError:
    return FunctionInUseError(
        f"function {function.name} is called by {users}",
        hint=f"say first: {first}; or replace it: CREATE OR REPLACE FUNCTION",
        ids={"function": function.name, **ids},
    )


def _unknown(name: str, known: Sequence[str]) -> UnknownFunctionError:
    hint = did_you_mean(name, known) or ("known: " + ", ".join(known[:10]) if known else "none is declared yet")
    return UnknownFunctionError(
        f"there is no Python function {name[:64]!r}", found=name, hint=hint, ids={"function": name}
    )
