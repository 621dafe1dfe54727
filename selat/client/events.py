"""Events of the cluster, as the master tells them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import TracebackType
from typing import Self

from selat.client.calls import Calls
from selat.convert.times import to_datetime
from selat.transport.retry import Reconnect
from selat.transport.session import Following, Session
from selat.v1 import event_pb2
from selat.v1 import event_pb2 as pb


class EventKind(Enum):
    """The kinds of events."""

    QUERY = "query"
    PLACEMENT = "placement"
    """The sites of a query's stages."""
    SITE = "site"
    LINK = "link"
    LEASE = "lease"
    UNKNOWN = "unknown"
    """A kind that this version of the client does not know."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once, or several times in a row."""

    number: int
    """Grows with time; an event that occurs again gets a new number."""
    kind: EventKind
    message: str
    query_id: str
    site: str
    to_site: str
    """The end of a link that an event is about."""
    at: datetime
    """When it happened last."""
    first_at: datetime
    count: int


_KINDS = {
    pb.EVENT_KIND_QUERY: EventKind.QUERY,
    pb.EVENT_KIND_PLACEMENT: EventKind.PLACEMENT,
    pb.EVENT_KIND_SITE: EventKind.SITE,
    pb.EVENT_KIND_LINK: EventKind.LINK,
    pb.EVENT_KIND_LEASE: EventKind.LEASE,
}


def event(message: pb.Event) -> Event:
    return Event(
        number=message.number,
        kind=_KINDS.get(message.kind, EventKind.UNKNOWN),
        message=message.message,
        query_id=message.query_id,
        site=message.site,
        to_site=message.to_site,
        at=to_datetime(message.at_us),
        first_at=to_datetime(message.first_at_us),
        count=message.count,
    )


def event_filter(kinds: Collection[EventKind], query: str, site: str) -> pb.EventFilter:
    """The filter of a request; no kinds: all kinds; empty texts: any query, any site."""
    return pb.EventFilter(kinds=[wire for wire, kind in _KINDS.items() if kind in kinds], query_id=query, site=site)


class EventWatch(Iterator[Event]):
    """Events after a number, then each new one, until closed.

    If the master goes away, it tries again from the last event, and raises ConnectionLost when it stays away.
    """

    def __init__(self, session: Session, wanted: pb.EventFilter, *, after: int = 0) -> None:
        self._after = after
        self._following: Following[pb.WatchEventsResponse] = Following(
            lambda: session.events.WatchEvents(pb.WatchEventsRequest(filter=wanted, after=self._after)),
            lambda: False,
            address=session.address,
            retry=Reconnect(session.waits.reconnect, what="events"),
        )
        self._messages = self._following.messages()

    def __next__(self) -> Event:
        found = event(next(self._messages).event)
        self._after = found.number
        return found

    def close(self) -> None:
        """Ends the watch; may be called from any thread."""
        self._following.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EventCalls(Calls):
    """Events of the cluster."""

    def events(
        self, *, kinds: Iterable[EventKind] = (), query: str = "", site: str = "", limit: int = 100
    ) -> list[Event]:
        """The newest events, oldest first: of these kinds (none: all), about that query, about that site or its links.

        Raises NotFound when there is no such query.
        """
        request = event_pb2.ListEventsRequest(filter=event_filter(tuple(kinds), query, site), limit=limit)
        return [event(e) for e in self._session.ask(self._session.events.ListEvents, request).events]

    def watch_events(
        self, *, kinds: Iterable[EventKind] = (), query: str = "", site: str = "", after: int = 0
    ) -> EventWatch:
        """The events after a number (0: all that are kept), then each new one, until the watch is closed."""
        return EventWatch(self._session, event_filter(tuple(kinds), query, site), after=after)
