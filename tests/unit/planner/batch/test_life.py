"""Phases of batch tasks, and where the last one of a query runs."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.batch import TASK_MOVES, TaskEvent, TaskPhase, next_phase, reduce_site
from planner.values.errors import IllegalTaskMoveError


@pytest.mark.parametrize(("phase", "event"), list(product(TaskPhase, TaskEvent)))
def test_every_move_is_in_the_table_or_refused(phase: TaskPhase, event: TaskEvent) -> None:
    if (phase, event) in TASK_MOVES:
        assert next_phase("t", phase, event) is TASK_MOVES[phase, event]
        return
    with pytest.raises(IllegalTaskMoveError) as caught:
        next_phase("t", phase, event)
    assert caught.value.ids == {"task": "t", "phase": phase.value}


@given(
    outputs=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9).map(float)),
    sites=st.sets(st.sampled_from("abcde"), min_size=1),
    target=st.sampled_from("abcde"),
)
def test_the_fewest_bytes_are_sent_then_the_target_wins(
    outputs: dict[str, float], sites: set[str], target: str
) -> None:
    def sent(site: str) -> float:
        return sum(size for at, size in outputs.items() if at != site)

    chosen = reduce_site(outputs, sites, target)
    assert chosen in sites
    assert all(sent(chosen) <= sent(site) for site in sites)
    if target in sites and sent(target) == sent(chosen):
        assert chosen == target
