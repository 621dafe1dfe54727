"""Answers questions about all known queries: who reads a relation, calls a function, or has a name."""

from __future__ import annotations

from collections.abc import Callable, Collection

from master.base.errors import QueryNameTakenError
from master.records.ids import check_query_name
from master.records.model import QueryRecord


class QueryLookup:
    """Looks at the queries as they are at each call."""

    def __init__(self, records: Callable[[], Collection[QueryRecord]]) -> None:
        self._records = records

    def live_of(self, owner: str) -> int:
        """The number of queries of that owner that are not over."""
        return sum(record.owner == owner and not record.state.over for record in self._records())

    def check_name_free(self, name: str) -> None:
        """Raises InvalidRequestError or QueryNameTakenError unless the name can be used; the empty name always can."""
        if not name:
            return
        check_query_name(name)
        holder = next((record for record in self._records() if record.name == name and not record.state.over), None)
        if holder is not None:
            raise QueryNameTakenError(
                f"query {holder.id} has the name {name!r}",
                hint="choose another name, or cancel it",
                ids={"name": name, "query": holder.id},
            )

    def live_readers(self, relation: str) -> tuple[str, ...]:
        """Ids of the queries that are not over and read the relation or write into it."""
        key = relation.lower()
        return tuple(
            record.id
            for record in self._records()
            if not record.state.over
            and any(stage.relation is not None and stage.relation.lower() == key for stage in record.plan.stages)
        )

    def live_callers(self, function: str) -> tuple[str, ...]:
        """Ids of the queries that are not over and call the Python function, in any version."""
        key = function.lower()
        return tuple(
            record.id
            for record in self._records()
            if not record.state.over and any(called.name.lower() == key for called in record.plan.functions)
        )
