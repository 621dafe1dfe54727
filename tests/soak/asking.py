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
"""Refusals by a master that has not heard a site for a while, or that accepted the query and could not say so."""

_T = TypeVar("_T")


def patiently(act: Callable[[], _T]) -> _T:
    """What `act` returns, as soon as the master and the sites that it needs are there.

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
    """The query that the last statement is; accepted once, however often the master dies before it can answer."""

    def attempt() -> selat.Query:
        with suppress(selat.NotFound):
            return client.query(name)
        *_, outcome = client.script(script, name=name)
        assert isinstance(outcome, selat.Query)
        return outcome

    return patiently(attempt)


def declare(client: selat.Client, ddl: str) -> None:
    """Run a CREATE statement; that the relation is there already means that an earlier attempt was heard."""

    def attempt() -> None:
        try:
            client.sql(ddl)
        except selat.StatementError as error:
            if error.code != "RELATION_EXISTS":
                raise

    patiently(attempt)


def unless_over(act: Callable[[], object]) -> bool:
    """Pause, resume or cancel a query. False: it had come to its end, or was asked already."""
    try:
        patiently(act)
    except selat.StatementError as error:
        if error.code not in ("QUERY_OVER", "QUERY_NOT_PAUSED"):
            raise
        return False
    return True
