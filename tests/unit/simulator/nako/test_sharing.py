"""Tests: a shared operator is kept, or one query is split off."""

from __future__ import annotations

import pytest

from simulator.nako.scenes import SOURCE
from simulator.nako.sharing import OFTEN, shared, split_by_source


@pytest.mark.parametrize(
    ("states_mb", "answer"),
    [((0, 0), "keep"), ((90, 90), "keep"), ((30, 90), "split Q1"), ((90, 0), "split Q2"), ((30, 30), "split")],
)
def test_what_the_source_does(states_mb: tuple[int, int], answer: str) -> None:
    assert split_by_source(states_mb) == answer


def test_the_operator_moves_for_both_and_they_are_well_again() -> None:
    found = shared(0, (0, 30), ("Q2",), SOURCE)
    assert found.answer == "keep"
    assert found.mean_s < 3
    assert found.more == pytest.approx(1.0, abs=0.1)


def test_where_overhead_counts_much_the_query_behind_the_link_is_split_off_and_sources_send_twice() -> None:
    """In some world: where the links to move over are slow."""
    found = [shared(seed, (90, 90), ("Q2",), OFTEN) for seed in range(10)]
    split = [one for one in found if one.answer == "split Q2"]
    assert split
    assert all(1.1 < one.more < 1.4 for one in split)
