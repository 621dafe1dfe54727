"""Rates from counters."""

from __future__ import annotations

from datetime import timedelta

from master.base.rates import RateMeter
from tests.unit.master.build import START


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_two_samples_make_a_rate_one_does_not() -> None:
    meter = RateMeter(at(10))
    meter.observe("a", START, 100)
    assert meter.per_second("a", START) == 0.0
    meter.observe("a", START + at(4), 300)
    assert meter.per_second("a", START + at(4)) == 50.0


def test_old_samples_leave() -> None:
    meter = RateMeter(at(10))
    for second, total in ((0, 0), (10, 1000), (20, 1000), (30, 1100)):
        meter.observe("a", START + at(second), total)
    assert meter.per_second("a", START + at(30)) == 10.0


def test_a_silent_counter_has_no_rate() -> None:
    meter = RateMeter(at(10))
    meter.observe("a", START, 0)
    meter.observe("a", START + at(1), 100)
    assert meter.per_second("a", START + at(10.5)) == 100.0
    assert meter.per_second("a", START + at(11)) == 0.0


def test_a_counter_that_falls_starts_anew() -> None:
    meter = RateMeter(at(10))
    meter.observe("a", START, 1000)
    meter.observe("a", START + at(1), 10)
    assert meter.per_second("a", START + at(1)) == 0.0
    meter.observe("a", START + at(2), 30)
    assert meter.per_second("a", START + at(2)) == 20.0


def test_a_counter_can_be_forgotten() -> None:
    meter = RateMeter(at(10))
    meter.observe("a", START, 0)
    meter.observe("a", START + at(1), 5)
    meter.forget("a")
    assert meter.per_second("a", START + at(1)) == 0.0
