from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.adaptation import (
    STREAMS,
    Change,
    Run,
    born_rows,
    dropping_ratio,
    plot,
    recovered_s,
    scenario,
)
from benchmarks.watching import Delay
from selat.wan.scenario import LinkEvent, RateEvent, SiteEvent

CHANGES = (Change("the rate", 0.0), Change("a link", 100.0))
CALM = tuple(Delay("topics", end_s, 2.0, 10) for end_s in range(-50, 200, 10))


def run_of(*late: Delay) -> Run:
    """A run with delays of 2 s but for these windows."""
    of = {one.end_s for one in late}
    return Run("on", CHANGES, (*(one for one in CALM if one.end_s not in of), *late), 1000, 10, 1000, 1)


def test_a_change_is_over_when_the_last_window_that_is_late_has_come() -> None:
    run = run_of(Delay("topics", 10, 30.0, 10), Delay("topics", 120, 6.5, 10))
    assert recovered_s(run, CHANGES[0]) == 40.0
    assert recovered_s(run, CHANGES[1]) == 26.5
    assert recovered_s(run_of(), CHANGES[0]) == 0.0


def test_what_is_late_still_at_the_next_change_counts_for_both() -> None:
    run = run_of(Delay("topics", 90, 40.0, 10))
    assert (recovered_s(run, CHANGES[0]), recovered_s(run, CHANGES[1])) == (130.0, 30.0)


def test_what_is_dropped_is_missing_in_the_ratio() -> None:
    assert run_of().ratio == pytest.approx(0.99)
    run = run_of(*(Delay("topics", end_s, 11.0, 10) for end_s in range(-50, 0, 10)))
    assert dropping_ratio(run) == pytest.approx(0.99 * 0.8)


def test_rows_are_born_by_the_rates_of_their_times() -> None:
    schedule = [(0.0, 10.0), (100.0, 20.0), (200.0, 10.0)]
    assert born_rows(schedule, 90.0, 210.0) == 100 + 2000 + 100
    assert born_rows(schedule, 300.0, 301.0) == 10


def test_all_that_changes_is_restored() -> None:
    events = scenario("eu", 125_000, 100)
    assert len([event for event in events if isinstance(event, RateEvent)]) == 2 * len(STREAMS)
    assert len([event for event in events if isinstance(event, LinkEvent)]) == 2
    assert len([event for event in events if isinstance(event, SiteEvent)]) == 2
    assert [event.at.total_seconds() for event in events] == [0, 0, 100, 100, 200, 300, 400, 460]


def test_the_plot_has_the_worst_delay_of_each_time() -> None:
    run = run_of(Delay("topics", 10, 30.0, 10))
    marks, line = plot([run, replace(run, adaptation="off")]).splitlines()[:2]
    assert marks.count("|") == 2
    assert line.startswith("  on  2")
    assert line.count("+") == 1
