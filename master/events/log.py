"""The ring of recent events, and those who watch it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from itertools import islice

from machine.clock import Clock
from master.base.notify import Notifier
from master.events import EVENTS_KEPT, SAME_WITHIN, Event, EventFilter, EventStore, Subject


class EventLog:
    """The newest events, by number; on one event loop."""

    def __init__(self, store: EventStore, *, clock: Clock, kept: int = EVENTS_KEPT) -> None:
        self._store = store
        self._clock = clock
        self._kept = kept
        self._events = {event.number: event for event in store.events()}
        self._newest = {event.subject: event.number for event in self._events.values()}
        self._last = max(self._events, default=0)
        self._changes = Notifier()

    def note(self, subject: Subject) -> None:
        """Add an event, or count a repetition."""
        now = self._clock.now()
        self._last += 1
        event = Event(self._last, subject, now, now)
        gone = []
        before = self._events.get(self._newest.get(subject, 0))
        if before is not None and now - before.at <= SAME_WITHIN:
            event = replace(event, first_at=before.first_at, count=before.count + 1)
            gone.append(before.number)
        gone += islice(
            (n for n in self._events if n not in gone), max(0, len(self._events) - len(gone) + 1 - self._kept)
        )
        for number in gone:
            forgotten = self._events.pop(number)
            if self._newest.get(forgotten.subject) == number:
                del self._newest[forgotten.subject]
        self._events[event.number] = event
        self._newest[subject] = event.number
        self._store.put_event(event, gone)
        self._changes.notify()

    def newest(self, wanted: EventFilter, limit: int) -> Sequence[Event]:
        """At most this many of the newest events, oldest first."""
        found = (event for event in reversed(self._events.values()) if wanted.has(event))
        return list(islice(found, limit))[::-1]

    async def watch(self, wanted: EventFilter, after: int) -> AsyncGenerator[Event, None]:
        """The events after a number, then each new one, until closed."""
        while True:
            seen = self._changes.version
            for event in [e for e in self._events.values() if e.number > after]:
                after = event.number
                if wanted.has(event):
                    yield event
            await self._changes.wait_beyond(seen)
