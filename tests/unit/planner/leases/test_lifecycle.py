from __future__ import annotations

from itertools import product

import pytest

from planner.leases import Slot, SlotState
from planner.leases.lifecycle import SLOT_MOVES, SlotEvent, next_slot_state
from planner.values.errors import IllegalSlotMoveError


@pytest.mark.parametrize(("state", "event"), list(product(SlotState, SlotEvent)))
def test_every_state_and_event_is_a_move_or_an_error_that_names_the_slot(state: SlotState, event: SlotEvent) -> None:
    slot = Slot("us", 1)
    if (state, event) in SLOT_MOVES:
        assert next_slot_state(slot, state, event) is SLOT_MOVES[state, event]
    else:
        with pytest.raises(IllegalSlotMoveError) as caught:
            next_slot_state(slot, state, event)
        assert caught.value.ids["slot"] == "us/1"


def test_every_state_is_left_and_reached() -> None:
    assert {state for state, _ in SLOT_MOVES} == set(SlotState) == set(SLOT_MOVES.values())
