from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.state.merging import WORTH, Merging, MergingLimits, runs_to_merge, size_class

LIMITS = MergingLimits(alike=4, most=40)


def test_runs_of_a_like_size_become_one() -> None:
    found = runs_to_merge([1000, 20, 17, 60, 5000, 30], LIMITS)

    assert found is not None
    assert (found.places, found.always) == ((1, 2, 3, 5), False)
    assert runs_to_merge([1000, 20, 17, 60], LIMITS) is None


def test_runs_that_combining_left_large_are_tried_again_when_they_are_twice_as_many() -> None:
    tried = {size_class(20): 4}

    assert runs_to_merge([20] * 7, LIMITS, tried=tried) is None
    assert runs_to_merge([20] * 8, LIMITS, tried=tried) is not None


def test_of_very_many_runs_the_smallest_become_one_whatever_is_left() -> None:
    rows = [4**10] * 20 + [1] * 21

    found = runs_to_merge(rows, LIMITS, tried={0: 21, 10: 20})

    assert found is not None
    assert (found.places, found.always) == (tuple(range(20, 41)), True)


def test_all_runs_become_one_where_that_is_wanted() -> None:
    wanted = Merging((0, 1, 2), size_class(1024), always=True)
    assert runs_to_merge([1000, 20, 4], LIMITS, tried={5: 9}, into_one=True) == wanted
    assert runs_to_merge([1000], LIMITS, into_one=True) is None
    assert runs_to_merge([], LIMITS, into_one=True) is None


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=150), st.floats(0.01, WORTH))
def test_what_is_written_again_is_less_than_half_of_what_was_written_first(runs: list[int], left: float) -> None:
    there: list[int] = []
    again = 0
    for rows in runs:
        there.append(rows)
        while (found := runs_to_merge(there, LIMITS)) is not None:
            assert not found.always
            together = int(left * sum(there[place] for place in found.places))
            there = [rows for place, rows in enumerate(there) if place not in found.places]
            if together:
                there.append(together)
            again += together
    assert again <= sum(runs) / 2
    assert len(there) < LIMITS.alike * (size_class(10**6) + 2)
