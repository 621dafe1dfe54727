from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from planner.epochs.stretch import EPOCH_CPU_S, FULL, LONGEST, MOST, WORTH, Load, stretch_after, stretched

SECOND = timedelta(seconds=1)


def load(used: float, late_s: float = 0.0, fixed: float = 1.0) -> Load:
    """On one CPU, with epochs that cost that share of it whatever they hold."""
    return Load(used, late_s, fixed / EPOCH_CPU_S, 1.0)


def settled(fixed: float, by_rows: float, start: float = 1.0, rounds: int = 200) -> list[float]:
    """Factors over time, with epochs whose fixed cost takes `fixed` of the CPU at a factor of 1, and rows `by_rows`."""
    factors = [start]
    for _ in range(rounds):
        used = min(1.0, fixed / factors[-1] + by_rows)
        factors.append(stretch_after(factors[-1], load(used, fixed=min(1.0, fixed / factors[-1]))))
    return factors


@given(st.floats(0, 0.7), st.floats(1, MOST))
def test_with_little_to_do_intervals_return_to_what_is_configured(fixed: float, start: float) -> None:
    assert settled(fixed, 0.0, start)[-1] == 1.0


@given(st.floats(0, 10), st.floats(0, 0.7), st.floats(1, MOST))
def test_where_larger_epochs_make_room_there_is_room_in_the_end(fixed: float, by_rows: float, start: float) -> None:
    last = settled(fixed, by_rows, start)[-50:]
    used = [fixed / factor + by_rows for factor in last]
    # Mostly; a step down may find that it was one too many.
    left = [u for u, factor in zip(used, last, strict=True) if u < FULL or fixed / factor < WORTH or factor == MOST]
    assert len(left) > len(used) / 2


@given(st.floats(0, 0.06), st.floats(1, MOST))
def test_a_cpu_that_is_full_of_rows_stretches_nothing(fixed: float, start: float) -> None:
    assert settled(fixed, 1.0)[-1] == 1.0
    assert settled(fixed, 1.0, start)[-1] == 1.0


@given(st.floats(0, 10), st.floats(0, 1), st.floats(1, MOST))
def test_factors_stay_within_their_bounds(fixed: float, by_rows: float, start: float) -> None:
    assert all(1 <= factor <= MOST for factor in settled(fixed, by_rows, start))


def test_no_further_than_needed() -> None:
    """Twice the CPU there is needs intervals of a bit more than twice the length, not many times."""
    assert max(settled(2.0, 0.0)[-50:]) < 2 / 0.8 * 1.5


def test_an_event_loop_that_is_late_counts_like_a_full_cpu() -> None:
    assert stretch_after(1.0, load(0.5, 0.3)) > 1
    assert stretch_after(2.0, load(0.5, 0.15)) == 2
    assert stretch_after(2.0, load(0.5, 0.01)) < 2


def test_intervals_have_a_longest() -> None:
    assert stretched(SECOND, 3) == 3 * SECOND
    assert stretched(SECOND, MOST) == LONGEST
    assert stretched(3 * LONGEST, MOST) == 3 * LONGEST
