"""The call that is being answered: its caller, and what it concerns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field

from planner.access.limits import Limits
from planner.access.principal import EVERYBODY, NOBODY, Principal


@dataclass(slots=True)
class Call:
    """A call in progress. Each call has a task, and so a context, of its own."""

    method: str
    peer: str
    principal: Principal = NOBODY
    token: str = ""
    """The id of the token that the caller presented."""
    limits: Limits = field(default_factory=Limits)
    relations: set[str] = field(default_factory=set)
    queries: set[str] = field(default_factory=set)
    statement_sha256: str = ""


_CALL: ContextVar[Call | None] = ContextVar("call", default=None)


def begin(call: Call) -> None:
    """Make this the call of the running task, which ends with it."""
    _CALL.set(call)


def caller() -> Principal:
    """The caller of the running call; everybody, at a master that does not check callers."""
    call = _CALL.get()
    return EVERYBODY if call is None else call.principal


def limits() -> Limits | None:
    """The caller's limits; None at a master that does not check callers."""
    call = _CALL.get()
    return None if call is None else call.limits


def note_relations(names: Iterable[str]) -> None:
    """Record relations that the call reads, writes or changes, for the audit log."""
    call = _CALL.get()
    if call is not None:
        call.relations.update(name.lower() for name in names)


def note_query(query: str) -> None:
    """Record a query that the call concerns, for the audit log."""
    call = _CALL.get()
    if call is not None:
        call.queries.add(query)


def note_statement(text: str) -> None:
    """Record the digest of a script, for the audit log. Not its text: literals may be confidential."""
    call = _CALL.get()
    if call is not None:
        call.statement_sha256 = hashlib.sha256(text.encode()).hexdigest()
