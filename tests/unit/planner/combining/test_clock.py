from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.combining.clock import AFTER_CLOSE_S, CLOSING_S, MOST_LATE_S, InputClock

SECOND_US = 1_000_000
START = InputClock(delay_us=2 * SECOND_US, step_us=SECOND_US, step_s=1.0)


def test_a_window_closes_with_the_epoch_whose_watermark_passes_its_end() -> None:
    closing = START.after(7 * SECOND_US + 400_000, 100.0).closing(10 * SECOND_US, 100.0)
    assert closing is not None
    assert closing.due_in_s == pytest.approx(3 + AFTER_CLOSE_S)
    assert closing.ends_in_s == pytest.approx(0.6), "rows of its last moments are still to come"


def test_a_job_that_takes_long_has_to_begin_earlier() -> None:
    clock = START.after(9 * SECOND_US, 100.0)
    quick, slow, slower = (
        clock.closing(10 * SECOND_US, 100.0, job_s=job_s) for job_s in (CLOSING_S / 2, CLOSING_S + 0.3, 60.0)
    )
    assert quick is not None
    assert slow is not None
    assert slower is not None
    assert quick.due_in_s - slow.due_in_s == pytest.approx(0.3)
    assert quick.due_in_s - slower.due_in_s == pytest.approx(MOST_LATE_S)


def test_nothing_is_expected_before_the_first_watermark() -> None:
    assert START.closing(10, 0.0) is None
    assert START.past_us(10, 0.0) is None
    assert START.after(None, 1.0) == START


def test_a_replay_runs_faster_than_the_wall() -> None:
    clock = START
    for epoch in range(30):
        clock = clock.after(epoch * 15 * SECOND_US, float(epoch))
    closing = clock.closing(clock.watermark_us + 60 * SECOND_US if clock.watermark_us is not None else 0, 29.0)
    assert closing is not None
    assert closing.due_in_s == pytest.approx(4 + AFTER_CLOSE_S, abs=0.1)


@given(st.lists(st.tuples(st.integers(-5, 10**7), st.floats(0, 10)), max_size=20), st.integers(-(10**8), 10**8))
def test_a_deadline_is_never_past(steps: list[tuple[int, float]], end_us: int) -> None:
    clock, watermark_us, now_s = START, 0, 0.0
    for step_us, step_s in steps:
        watermark_us, now_s = watermark_us + step_us, now_s + step_s
        clock = clock.after(watermark_us, now_s)
        closing = clock.closing(end_us, now_s)
        if closing is not None:
            assert closing.due_in_s >= 0
            assert clock.step_s > 0


@pytest.mark.parametrize(("delay_s", "newest_s"), [(2.0, 0.5), (2.0, 0.01), (2.0, 0.99), (0.0, 0.5), (1.0, 0.3)])
def test_the_delay_is_seen_when_a_window_begins(delay_s: float, newest_s: float) -> None:
    """A source that promises the order of its rows has a watermark with a shorter delay than its stream declares."""
    start_us = 100 * SECOND_US
    before = START.after(round(start_us + (newest_s - 1 - delay_s) * SECOND_US), 99.0)

    seen = before.begins(start_us)

    assert seen.seen_us == pytest.approx(delay_s * SECOND_US, abs=SECOND_US / 2)
    after = seen.after(round(start_us + (newest_s - delay_s) * SECOND_US), 100.0)
    past_us = after.past_us(start_us, 100.0)
    assert past_us is not None
    assert 0 <= past_us <= SECOND_US


def test_after_a_silence_nothing_is_seen_of_the_delay() -> None:
    """The newest row is then of long before the window began."""
    clock = START.after(40 * SECOND_US, 1.0)
    assert clock.begins(60 * SECOND_US).seen_us is None
    assert clock.begins(38 * SECOND_US).seen_us == 0, "it is never less than none"
    assert clock.begins(43 * SECOND_US).seen_us == START.delay_us, "it is never more than declared"


def test_where_epochs_are_seldom_nothing_is_seen_of_the_delay() -> None:
    clock = SELDOM.after(SECOND_US, 1.0)
    assert clock.begins(0) == clock


SELDOM = InputClock(delay_us=2 * SECOND_US, step_us=SECOND_US, step_s=1.0, seldom=True)


def test_where_epochs_are_seldom_the_clock_goes_on_alone() -> None:
    clock = SELDOM.after(10 * SECOND_US, 100.0)
    now, later = (clock.closing(20 * SECOND_US, now_s) for now_s in (100.0, 106.0))
    assert now is not None
    assert later is not None
    assert now.due_in_s - later.due_in_s == pytest.approx(6.0)
    assert now.ends_in_s - later.ends_in_s == pytest.approx(6.0)
    assert clock.past_us(20 * SECOND_US, 106.0) == -2 * SECOND_US


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=6), st.floats(0.5, 100))
def test_epochs_of_several_sites_that_come_in_a_moment_are_as_one(steps_us: list[int], took_s: float) -> None:
    several = one = SELDOM.after(0, 100.0)
    watermark_us = 0
    for step_us in steps_us:
        watermark_us += step_us
        several = several.after(watermark_us, 100.0 + took_s)
    one = one.after(watermark_us, 100.0 + took_s)
    assert several.step_us == pytest.approx(one.step_us)
    assert several.watermark_us == one.watermark_us
    assert several.step_s == 1.0
