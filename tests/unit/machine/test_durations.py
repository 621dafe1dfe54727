"""Durations as a histogram counts them."""

from __future__ import annotations

from machine.durations import Durations


def test_a_duration_counts_under_each_bound_that_it_does_not_exceed() -> None:
    durations = Durations((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        durations.observe(seconds, "us")
    found = durations.read()["us",]
    assert found.up_to == ((0.1, 2), (1.0, 3))
    assert (found.count, found.sum_s) == (4, 7.65)


def test_labels_are_counted_apart_and_come_in_order() -> None:
    durations = Durations()
    durations.observe(0.1, "us", "source")
    durations.observe(0.1, "eu", "merge")
    assert list(durations.read()) == [("eu", "merge"), ("us", "source")]
