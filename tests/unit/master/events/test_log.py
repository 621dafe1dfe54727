"""The ring of events, in memory and on disk."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from master.events import EventFilter, EventKind, Subject
from master.events.log import EventLog
from master.events.sqlite import EVENTS_FILE, SqliteEvents
from tests.fakes import VirtualClock

UP = Subject(EventKind.SITE, "site is alive", site="us")
DOWN = Subject(EventKind.SITE, "site is unreachable", site="us")
LINK = Subject(EventKind.LINK, "carries 1Mbit/s, was 2Mbit/s", site="eu", to_site="us")
ALL = EventFilter()


def messages(log: EventLog, wanted: EventFilter = ALL, limit: int = 100) -> list[tuple[int, str, int]]:
    return [(e.number, e.subject.message, e.count) for e in log.newest(wanted, limit)]


def test_what_repeats_soon_is_counted_and_moves_to_the_end() -> None:
    clock = VirtualClock()
    log = EventLog(SqliteEvents.in_memory(), clock=clock)
    began = clock.now()
    for subject in (UP, DOWN, UP):
        log.note(subject)
        clock.advance(timedelta(minutes=1))
    assert messages(log) == [(2, DOWN.message, 1), (3, UP.message, 2)]
    last = log.newest(ALL, 1)[0]
    assert (last.first_at, last.at) == (began, began + timedelta(minutes=2))
    clock.advance(timedelta(minutes=10))
    log.note(UP)
    assert messages(log)[-2:] == [(3, UP.message, 2), (4, UP.message, 1)]


def test_the_oldest_go() -> None:
    store = SqliteEvents.in_memory()
    log = EventLog(store, clock=VirtualClock(), kept=2)
    for number in range(5):
        log.note(Subject(EventKind.QUERY, f"event {number}"))
    assert messages(log) == [(4, "event 3", 1), (5, "event 4", 1)]
    assert [event.number for event in store.events()] == [4, 5]


def test_filters_and_limits() -> None:
    log = EventLog(SqliteEvents.in_memory(), clock=VirtualClock())
    for subject in (UP, LINK, Subject(EventKind.QUERY, "accepted", "q-1")):
        log.note(subject)
    assert [m for _, m, _ in messages(log, EventFilter(site="us"))] == [UP.message, LINK.message]
    assert [m for _, m, _ in messages(log, EventFilter(query="q-1"))] == ["accepted"]
    assert [m for _, m, _ in messages(log, EventFilter(kinds=frozenset({EventKind.LINK})))] == [LINK.message]
    assert [m for _, m, _ in messages(log, limit=1)] == ["accepted"]


def test_events_outlast_the_master(tmp_path: Path) -> None:
    store = SqliteEvents.open(tmp_path)
    log = EventLog(store, clock=VirtualClock())
    for subject in (UP, LINK, UP):
        log.note(subject)
    before = log.newest(ALL, 10)
    store.close()
    again = EventLog(SqliteEvents.open(tmp_path), clock=VirtualClock())
    assert again.newest(ALL, 10) == before
    again.note(DOWN)
    assert messages(again)[-1] == (4, DOWN.message, 1)


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / EVENTS_FILE).write_bytes(b"no database at all" * 100)
    assert tuple(SqliteEvents.open(tmp_path).events()) == ()
    assert list(tmp_path.glob("*.damaged"))


def test_a_disk_that_refuses_stops_nothing() -> None:
    store = SqliteEvents.in_memory()
    log = EventLog(store, clock=VirtualClock())
    store._connection.execute("DROP TABLE events")
    log.note(UP)
    assert messages(log) == [(1, UP.message, 1)]


async def test_watchers_get_what_was_and_what_comes() -> None:
    log = EventLog(SqliteEvents.in_memory(), clock=VirtualClock())
    log.note(UP)
    log.note(DOWN)
    watch = log.watch(EventFilter(site="us"), after=1)
    assert (await anext(watch)).subject == DOWN
    coming = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    log.note(Subject(EventKind.QUERY, "accepted", "q-1"))
    log.note(LINK)
    assert (await coming).subject == LINK
    await watch.aclose()
