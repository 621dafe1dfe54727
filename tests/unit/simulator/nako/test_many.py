"""Several queries, and their figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.nako.many import Outcome, run
from simulator.nako.scenes import SOURCE, STEP_AT_S, stepped


def outcome() -> Outcome:
    """Ten calm seconds at a second of delay, then five at three."""
    delays_s = (1.0,) * 20 + (3.0,) * 10
    return Outcome({"p": delays_s, "q": (1.0,) * 30}, 10.0, {"p": tuple(range(30))}, (), {}, ())


def test_figures_of_a_query() -> None:
    found = outcome()
    assert (found.usual_s("p"), found.mean_s("p"), found.constrained_s("p")) == (1.0, 3.0, 5.0)
    assert (found.constrained_s("q"), found.over_all(found.constrained_s)) == (0.0, 2.5)
    assert found.bytes_per_s("p", 0.0) == found.bytes_per_s("p", 5.0, 10.0) == 2.0
    assert found.adapted == frozenset()


def test_without_adaptation_those_behind_narrow_links_wait_and_the_others_do_not() -> None:
    found = run(stepped(0, None, shadow=True))
    late = {query for query in found.delays_s if found.mean_s(query) > 10}
    assert len(late) == 6
    assert {"Q1", "Q2", "Q5", "Q7"} < late
    assert all(found.constrained_s(query) == 0 for query in found.delays_s.keys() - late)
    assert all(found.delays_s[query][int(2 * STEP_AT_S) - 1] < 2 for query in found.delays_s)


@pytest.mark.parametrize("shadow", [True, False])
def test_two_that_move_heal_six(shadow: bool) -> None:
    found = run(stepped(0, SOURCE, shadow=shadow))
    assert (len(found.slow), len(found.adapted)) == (6, 2)
    assert found.over_all(found.mean_s) < 2.5
    assert min(act.at_s for act in found.acts) == 150


def test_the_same_seed_is_the_same_play() -> None:
    short = replace(stepped(1, SOURCE, shadow=True), seconds=200.0)
    assert run(short) == run(replace(stepped(1, SOURCE, shadow=True), seconds=200.0))
