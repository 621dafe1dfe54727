"""Requests to a master that may be killed or frozen at any time: each is repeated until it is known to be done."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import selat

PATIENCE_S = 180.0
_AGAIN_S = 0.5
_PASSING = frozenset({"NO_PLACEMENT", "QUERY_NAME_TAKEN"})
"""Refusals by a master that has not heard from a site for a while, or whose acceptance of the query got lost."""

_T = TypeVar("_T")


def patiently(act: Callable[[], _T]) -> _T:
    """Repeat a request until the master and the sites that it needs are there. Returns its result.

    Raises the last error when they stay away.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return act()
        except (selat.Unavailable, selat.TimedOut, selat.StatementError) as error:
            passing = error.code in _PASSING or not isinstance(error, selat.StatementError)
            if not passing or time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN_S)


def submit(client: selat.Client, script: str, name: str) -> selat.Query:
    """Submit a script whose last statement is a query: once, however often the master dies before it can answer."""

    def attempt() -> selat.Query:
        with suppress(selat.NotFound):
            return client.query(name)
        *_, outcome = client.script(script, name=name)
        assert isinstance(outcome, selat.Query)
        return outcome

    return patiently(attempt)


def declare(client: selat.Client, ddl: str) -> None:
    """Run a CREATE statement. If the relation exists, an earlier attempt succeeded."""

    def attempt() -> None:
        try:
            client.sql(ddl)
        except selat.StatementError as error:
            if error.code != "RELATION_EXISTS":
                raise

    patiently(attempt)


def unless_over(act: Callable[[], object]) -> bool:
    """Pause, resume or cancel a query. Returns False when it was over, or not paused."""
    try:
        patiently(act)
    except selat.StatementError as error:
        if error.code not in ("QUERY_OVER", "QUERY_NOT_PAUSED"):
            raise
        return False
    return True


def unless_refused(ask: Callable[[], object]) -> bool:
    """Ask for a move. Returns False when it cannot be made now, or the query is over."""
    try:
        patiently(ask)
    except selat.StatementError as error:
        if error.code not in ("HANDOVER_REFUSED", "QUERY_OVER"):
            raise
        return False
    return True
