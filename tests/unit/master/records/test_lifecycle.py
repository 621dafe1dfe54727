"""Every state with every event, and the drawing in the documentation."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from master.base.errors import IllegalTransitionError
from master.records.lifecycle import QUERY_MOVES, SITE_MOVES, QueryEvent, SiteEvent, next_query_state, next_site_state
from master.records.model import QueryState, SiteState

OPERATIONS = Path(__file__).parents[4] / "docs" / "operations.md"


@pytest.mark.parametrize(("state", "event"), list(product(QueryState, QueryEvent)))
def test_a_query_moves_as_the_table_says_or_not_at_all(state: QueryState, event: QueryEvent) -> None:
    target = QUERY_MOVES.get((state, event))
    if target is not None:
        assert next_query_state("q", state, event) is target
        return
    with pytest.raises(IllegalTransitionError) as caught:
        next_query_state("q", state, event)
    assert caught.value.ids == {"query": "q", "state": state.value, "event": event.value}


@pytest.mark.parametrize(("state", "event"), list(product(SiteState, SiteEvent)))
def test_a_site_moves_as_the_table_says_or_not_at_all(state: SiteState, event: SiteEvent) -> None:
    target = SITE_MOVES.get((state, event))
    if target is not None:
        assert next_site_state("us", state, event) is target
        return
    with pytest.raises(IllegalTransitionError) as caught:
        next_site_state("us", state, event)
    assert caught.value.ids["site"] == "us"


def test_nothing_leaves_a_state_that_is_over_and_every_other_state_can_be_left() -> None:
    left = {source for source, _ in QUERY_MOVES}
    assert left == {state for state in QueryState if not state.over}


def test_every_query_state_but_the_first_is_reached() -> None:
    assert set(QUERY_MOVES.values()) == set(QueryState) - {QueryState.DEPLOYING}


def test_a_silent_site_comes_back_by_reporting() -> None:
    silent = next_site_state("us", SiteState.ALIVE, SiteEvent.HEARTBEAT_OVERDUE)
    assert silent is SiteState.UNREACHABLE
    assert next_site_state("us", silent, SiteEvent.REPORTED) is SiteState.ALIVE


def test_the_drawings_in_the_documentation_equal_the_tables() -> None:
    drawn = set(re.findall(r"^\s+(\w+) --(\w+)--> (\w+)$", OPERATIONS.read_text(), re.MULTILINE))
    moves = [(s.name, e.name, t.name) for (s, e), t in QUERY_MOVES.items()]
    moves += [(s.name, e.name, t.name) for (s, e), t in SITE_MOVES.items()]
    assert drawn == set(moves)
