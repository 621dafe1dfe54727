"""Filters and pages of lists of queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from master.base.errors import InvalidRequestError
from master.records.ids import query_number
from master.records.model import QueryRecord, QueryState


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which queries a caller asks for."""

    ended: bool = False
    """Queries that are over are included."""
    states: frozenset[QueryState] = frozenset()
    """Only queries in these states; empty: in any."""
    text: str = ""
    """A text that the id, the name or the SQL contains, ignoring case."""

    def has(self, record: QueryRecord) -> bool:
        """Whether the query is among them."""
        if self.states:
            if record.state not in self.states:
                return False
        elif record.state.over and not self.ended:
            return False
        text = self.text.lower()
        return not text or any(text in part.lower() for part in (record.id, record.name, record.sql))


def page(records: Iterable[QueryRecord], size: int, token: str) -> tuple[Sequence[QueryRecord], str]:
    """Up to this many queries (0: all) after the token, and the token of the next page, empty after the last.

    Args:
        records: In order of submission.

    Raises:
        InvalidRequestError: the token is none that was given.
    """
    after = query_number(token) if token else 0
    if after is None:
        raise InvalidRequestError(f"{token!r} is no page_token", hint="send the next_page_token of the last answer")
    left = [record for record in records if (query_number(record.id) or 0) > after]
    if not size or len(left) <= size:
        return left, ""
    return left[:size], left[size - 1].id
