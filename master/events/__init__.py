"""Events of the cluster: a bounded, durable log for people.

    queries, sites, links, leases -> notes (in words) -> log (a ring, told to watchers) -> sqlite (a file of its own)

Losing the last events costs nothing but knowledge, so no decision waits for them, and none fails with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

EVENTS_KEPT = 10_000
SAME_WITHIN = timedelta(minutes=10)
"""An event that repeats within this time is counted instead of listed again."""


class EventKind(Enum):
    """The kinds of events."""

    QUERY = "query"
    PLACEMENT = "placement"
    SITE = "site"
    LINK = "link"
    LEASE = "lease"


@dataclass(frozen=True, slots=True)
class Subject:
    """An occurrence and its subject; events that are equal in this are repetitions of one."""

    kind: EventKind
    message: str
    query: str = ""
    site: str = ""
    to_site: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once or several times."""

    number: int
    subject: Subject
    at: datetime
    """The time of the last occurrence."""
    first_at: datetime
    count: int = 1


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events a caller asks for."""

    kinds: frozenset[EventKind] = frozenset()
    """None: all."""
    query: str = ""
    site: str = ""

    def has(self, event: Event) -> bool:
        """Whether an event is among them."""
        subject = event.subject
        if self.kinds and subject.kind not in self.kinds:
            return False
        if self.query and subject.query != self.query:
            return False
        return not self.site or self.site in (subject.site, subject.to_site)


class EventStore(Protocol):
    """Where events outlast the master. Failures are logged; none is raised."""

    def events(self) -> Iterable[Event]:
        """All kept events, oldest first."""
        ...

    def put_event(self, event: Event, gone: Iterable[int]) -> None:
        """Add an event, and delete those with these numbers."""
        ...
