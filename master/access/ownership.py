"""Ownership of queries: only its owner, an operator or an admin may cancel or pause a query, or read its results."""

from __future__ import annotations

from master.access.caller import caller, limits, note_query, note_relations
from master.access.rights import limit_exceeded
from master.base.errors import NotOwnerError
from master.records.model import QueryRecord
from planner.access.roles import Right


def own(record: QueryRecord) -> QueryRecord:
    """The query, if the caller may manage it.

    Raises:
        NotOwnerError: it is another's.
    """
    note_query(record.id)
    note_relations(stage.relation for stage in record.plan.stages if stage.relation is not None)
    by = caller()
    if by.may(Right.MANAGE) or (by.name and by.name == record.owner):
        return record
    raise NotOwnerError(
        f"query {record.id} is {record.owner or 'nobody'}'s",
        hint="its owner, an operator or an admin can do that",
        ids={"query": record.id, "principal": by.name},
    )


def check_live(live: int) -> None:
    """Raises LimitExceededError when the caller has as many queries that are not over as it may have."""
    most = limits()
    if most is not None and live >= most.live_queries:
        raise limit_exceeded(caller(), "live_queries", most)


def check_statement(size_bytes: int) -> None:
    """Raises LimitExceededError when the caller may not send a script of that length."""
    most = limits()
    if most is not None and size_bytes > most.statement_bytes:
        raise limit_exceeded(caller(), "statement_bytes", most)
