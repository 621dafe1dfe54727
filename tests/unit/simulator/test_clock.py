from __future__ import annotations

from datetime import timedelta

from simulator.clock import START, Clock, seconds


def test_events_come_in_order_of_time_then_of_making() -> None:
    clock, seen = Clock(), []
    for name, at_s in (("c", 2.0), ("a", 1.0), ("b", 1.0)):
        clock.at(at_s, lambda name=name: seen.append((name, clock.now_s)))  # type: ignore[misc]
    clock.run()
    assert seen == [("a", 1.0), ("b", 1.0), ("c", 2.0)]


def test_what_is_cancelled_is_not_done() -> None:
    clock, seen = Clock(), []
    event = clock.after(1.0, lambda: seen.append("no"))
    clock.after(0.5, event.cancel)
    clock.run()
    assert seen == []


def test_what_is_due_in_the_past_is_done_now() -> None:
    clock, seen = Clock(), []

    def late() -> None:
        clock.at(1.0, lambda: seen.append(clock.now_s))

    clock.at(5.0, late)
    clock.run()
    assert seen == [5.0]


def test_time_stops_where_it_is_told_to() -> None:
    clock, seen = Clock(), []
    clock.at(1.0, lambda: seen.append(1))
    clock.at(2.0, lambda: seen.append(2))
    clock.run(until_s=1.5)
    assert seen == [1]
    assert seconds(clock.now + timedelta(seconds=1)) == 2.0
    assert START.tzinfo is not None
