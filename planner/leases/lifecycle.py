"""The life of a slot: states, events, and the one table of legal moves."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from planner.leases.model import Slot, SlotState
from planner.values.errors import IllegalSlotMoveError


class SlotEvent(Enum):
    GRANTED = "granted"
    RENEWED = "renewed"
    EXPIRED = "expired"
    """The lease's expiry has come."""
    VACATED = "vacated"
    """Released, the grace is over, or the offer was withdrawn or lapsed; nobody else waits."""
    OFFERED = "offered"
    """The same, and somebody waits; or somebody came to wait for a free slot."""


SLOT_MOVES: Mapping[tuple[SlotState, SlotEvent], SlotState] = MappingProxyType(
    {
        (SlotState.FREE, SlotEvent.GRANTED): SlotState.LEASED,
        (SlotState.FREE, SlotEvent.OFFERED): SlotState.OFFERED,
        (SlotState.OFFERED, SlotEvent.GRANTED): SlotState.LEASED,
        (SlotState.OFFERED, SlotEvent.OFFERED): SlotState.OFFERED,
        (SlotState.OFFERED, SlotEvent.VACATED): SlotState.FREE,
        (SlotState.LEASED, SlotEvent.RENEWED): SlotState.LEASED,
        (SlotState.LEASED, SlotEvent.EXPIRED): SlotState.GRACE,
        (SlotState.LEASED, SlotEvent.VACATED): SlotState.FREE,
        (SlotState.LEASED, SlotEvent.OFFERED): SlotState.OFFERED,
        (SlotState.GRACE, SlotEvent.RENEWED): SlotState.LEASED,
        (SlotState.GRACE, SlotEvent.VACATED): SlotState.FREE,
        (SlotState.GRACE, SlotEvent.OFFERED): SlotState.OFFERED,
    }
)


def next_slot_state(slot: Slot, state: SlotState, event: SlotEvent) -> SlotState:
    """Where the event leads.

    Raises:
        IllegalSlotMoveError: the state knows no move for it: a defect of ours.
    """
    target = SLOT_MOVES.get((state, event))
    if target is None:
        raise IllegalSlotMoveError(
            f"slot {slot} is {state.value}: no move for {event.value}",
            ids={"slot": str(slot), "state": state.value, "event": event.value},
        )
    return target
