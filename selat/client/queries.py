"""A client's calls about queries."""

from __future__ import annotations

from collections.abc import Iterable

from selat.client.calls import Calls
from selat.client.query import Query
from selat.convert import queries as convert
from selat.v1 import query_pb2
from selat.values import QueryState, SharedOperator

_PAGE = 1000
"""The number of summaries in one answer."""


class QueryCalls(Calls):
    """Queries, and what they share."""

    def queries(
        self, *, all: bool = False, states: Iterable[QueryState] = (), text: str = "", summary: bool = False
    ) -> list[Query]:
        """The queries that run; with `all` also those that are over. `Query.last` is what the master said of each.

        Args:
            all: Also those that are over.
            states: Only those in one of these states, over or not; none: all states.
            text: Only those whose id, name or SQL has it, whatever the case.
            summary: Without tasks, links, columns and what is shared; for lists of many.
        """
        request = query_pb2.ListQueriesRequest(
            all=all,
            states=[wire for wire, state in convert.QUERY_STATES.items() if state in tuple(states)],
            text=text,
            detail=query_pb2.QUERY_DETAIL_SUMMARY if summary else query_pb2.QUERY_DETAIL_UNSPECIFIED,
            page_size=_PAGE if summary else 0,
        )
        found: list[Query] = []
        while True:
            answer = self._session.ask(self._session.queries.ListQueries, request)
            found += [Query(self._session, convert.query_info(q)) for q in answer.queries]
            if not answer.next_page_token:
                return found
            request.page_token = answer.next_page_token

    def sharing(self) -> list[SharedOperator]:
        """The tasks that several queries need, by id."""
        answer = self._session.ask(self._session.queries.ListSharing, query_pb2.ListSharingRequest())
        return [convert.shared_operator(o) for o in answer.operators]

    def query(self, query: str) -> Query:
        """The query with that id, unique beginning of an id, or name. Raises NotFound."""
        request = query_pb2.GetQueryRequest(query=query)
        answer = self._session.ask(self._session.queries.GetQuery, request)
        return Query(self._session, convert.query_info(answer.query))
