"""Events, as clients see them."""

from __future__ import annotations

from contract.times import to_us
from master.events import Event, EventFilter, EventKind
from selat.v1 import event_pb2 as pb

_KINDS = {
    EventKind.QUERY: pb.EVENT_KIND_QUERY,
    EventKind.PLACEMENT: pb.EVENT_KIND_PLACEMENT,
    EventKind.SITE: pb.EVENT_KIND_SITE,
    EventKind.LINK: pb.EVENT_KIND_LINK,
    EventKind.LEASE: pb.EVENT_KIND_LEASE,
}
_KINDS_BACK = {wire: kind for kind, wire in _KINDS.items()}


def event_to_proto(event: Event) -> pb.Event:
    subject = event.subject
    return pb.Event(
        number=event.number,
        kind=_KINDS[subject.kind],
        message=subject.message,
        query_id=subject.query,
        site=subject.site,
        to_site=subject.to_site,
        at_us=to_us(event.at),
        first_at_us=to_us(event.first_at),
        count=event.count,
    )


def filter_from_proto(message: pb.EventFilter) -> EventFilter:
    """The filter in a request. Kinds that this version does not know match nothing."""
    kinds = frozenset(_KINDS_BACK[kind] for kind in message.kinds if kind in _KINDS_BACK)
    return EventFilter(kinds, message.query_id, message.site)
