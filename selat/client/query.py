"""A handle on one query at the master."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Self

from selat.client.results import FromEpoch, Results, Start
from selat.convert import queries as convert
from selat.errors import Detail, TimedOut
from selat.transport.retry import Reconnect
from selat.transport.session import Call, Following, Session
from selat.v1 import query_pb2
from selat.values import Cursor, Explanation, QueryInfo, QueryState


class Watch(Iterator[QueryInfo]):
    """The query now, after each change of state, and at least once per interval, until it is over.

    If the master goes away, it tries again, and raises ConnectionLost when it stays away.
    """

    def __init__(self, session: Session, info: QueryInfo, *, interval: timedelta, within: timedelta | None) -> None:
        self._session = session
        self._last = info
        self._interval_ms = max(1, interval // timedelta(milliseconds=1))
        self._deadline = None if within is None else time.monotonic() + within.total_seconds()
        patience = session.waits.reconnect if within is None else min(within, session.waits.reconnect)
        self._following: Following[query_pb2.WatchQueryResponse] = Following(
            self._open,
            lambda: self._last.over,
            address=session.address,
            retry=Reconnect(patience, what=f"state of {info.id}"),
        )
        self._messages = self._following.messages()

    def __next__(self) -> QueryInfo:
        self._last = convert.query_info(next(self._messages).query)
        return self._last

    def close(self) -> None:
        """Ends the watch; may be called from any thread."""
        self._following.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> Call[query_pb2.WatchQueryResponse]:
        request = query_pb2.WatchQueryRequest(query=self._last.id, interval_ms=self._interval_ms)
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        return self._session.queries.WatchQuery(request, timeout=left)


class Query:
    """One query at the master. The handle holds nothing but the id and what it saw last; many may name one query."""

    def __init__(self, session: Session, info: QueryInfo) -> None:
        self._session = session
        self._last = info

    @property
    def id(self) -> str:
        """The id that the master gave it."""
        return self._last.id

    @property
    def last(self) -> QueryInfo:
        """The query as this handle saw it last, without asking the master."""
        return self._last

    def info(self) -> QueryInfo:
        """The query as it is now."""
        answer = self._session.ask(self._session.queries.GetQuery, query_pb2.GetQueryRequest(query=self.id))
        return self._saw(answer.query)

    def state(self) -> QueryState:
        """Its state now."""
        return self.info().state

    def watch(self, interval: timedelta = timedelta(seconds=1)) -> Watch:
        """The query after each change, and at least once per interval, until it is over."""
        return Watch(self._session, self._last, interval=interval, within=None)

    def wait(self, timeout: timedelta | None = None) -> QueryInfo:
        """Waits until the query is over and returns how it ended; look at its `state`.

        Raises TimedOut when it is not over within `timeout`.
        """
        with Watch(self._session, self._last, interval=timedelta(seconds=1), within=timeout) as watch:
            try:
                for info in watch:
                    self._last = info
            except TimedOut:
                state = self._last.state.value
                text = f"query {self.id} is still {state} after {timeout}"
                raise TimedOut(text, detail=Detail(ids={"query": self.id})) from None
        return self._last

    def cancel(self) -> QueryInfo:
        """Asks the master to end the query. Results that were delivered stay."""
        answer = self._session.ask(self._session.queries.CancelQuery, query_pb2.CancelQueryRequest(query=self.id))
        return self._saw(answer.query)

    def pause(self) -> QueryInfo:
        """Has the query's tasks stand still, but for those that other queries need. Results so far stay readable.

        Raises StatementError for a batch query (QUERY_NOT_PAUSABLE), and for one that is over (QUERY_OVER).
        """
        answer = self._session.ask(self._session.queries.PauseQuery, query_pb2.PauseQueryRequest(query=self.id))
        return self._saw(answer.query)

    def resume(self) -> QueryInfo:
        """Has a paused query go on from where it stopped; no row is lost or doubled.

        Raises StatementError when it is not paused (QUERY_NOT_PAUSED), or over (QUERY_OVER).
        """
        answer = self._session.ask(self._session.queries.ResumeQuery, query_pb2.ResumeQueryRequest(query=self.id))
        return self._saw(answer.query)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """The query's plan: stages, sites, traffic expected on each link; with `analyze`, measurements as well."""
        request = query_pb2.ExplainQueryRequest(query=self.id, analyze=analyze)
        return convert.explanation(self._session.ask(self._session.queries.ExplainQuery, request).explanation)

    def results(self, follow: bool = True, cursor: Cursor | None = None, *, from_epoch: FromEpoch = 0) -> Results:
        """Its result batches after `cursor`; channels that the cursor does not name begin at `from_epoch`.

        With `follow`, until the query is over; without, what there is now. Of a query that runs for long only the
        newest results are kept: reading raises ResultsGone at epochs that are gone. With `from_epoch="first"` it begins
        at the first that is kept. It raises StatementError with code NO_RESULTS when the query writes into a sink.
        """
        return Results(self._session, self._last, follow=follow, start=Start(cursor, from_epoch))

    def _saw(self, message: query_pb2.Query) -> QueryInfo:
        self._last = convert.query_info(message)
        return self._last

    def __repr__(self) -> str:
        return f"<Query {self.id} {self._last.state.value}>"
