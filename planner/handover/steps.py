"""The state machine of a handover: a table of moves, and the event that follows from what the sites report. Pure.

Until the old task's channel has ended, the query runs as if nothing had been asked for, and every handover can be
rolled back. Where the order to end the channel was given, only the old task can say whether it has followed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from types import MappingProxyType

from planner.handover.model import Handover, Step


class Event(Enum):
    KEPT = "kept"
    """All producers of the inputs keep what they have for the successor."""
    SUBSCRIBED = "subscribed"
    """The successor has all inputs, and the readers of the old task know it. Where something begins in the middle of
    its inputs: it is known which windows it has whole."""
    READY = "ready"
    """The successor has the old task's state, and has caught up. Without state, or with new parts: the old task has
    emitted all windows that the successor does not have whole."""
    TAKEN_OVER = "taken_over"
    """The successor's channel goes on where the old one ended."""
    DRAINED = "drained"
    """Nobody needs the old task or its channel any more."""
    GIVEN_UP = "given_up"
    """The handover takes too long, or is not wanted any more."""
    HAD_CUT = "had_cut"
    """The old task had ended its channel when it was told not to."""
    KEPT_ON = "kept_on"
    """The old task will not end its channel for the successor."""
    CLEARED = "cleared"
    """No site has anything of the successor any more."""


MOVES: Mapping[tuple[Step, Event], Step | None] = MappingProxyType(
    {
        (Step.REGISTERED, Event.KEPT): Step.STARTED,
        (Step.REGISTERED, Event.GIVEN_UP): Step.BACK,
        (Step.STARTED, Event.SUBSCRIBED): Step.SEEDING,
        (Step.STARTED, Event.GIVEN_UP): Step.BACK,
        (Step.SEEDING, Event.READY): Step.CUT,
        (Step.SEEDING, Event.GIVEN_UP): Step.BACK,
        (Step.CUT, Event.TAKEN_OVER): Step.TAKEN,
        (Step.CUT, Event.KEPT_ON): Step.BACK,
        (Step.CUT, Event.GIVEN_UP): Step.WITHDRAWN,
        (Step.WITHDRAWN, Event.TAKEN_OVER): Step.TAKEN,
        (Step.WITHDRAWN, Event.HAD_CUT): Step.CUT,
        (Step.WITHDRAWN, Event.KEPT_ON): Step.BACK,
        (Step.TAKEN, Event.DRAINED): None,
        (Step.BACK, Event.CLEARED): None,
    }
)
"""They give the step that follows; None: the handover is over."""


@dataclass(frozen=True, slots=True)
class Told:
    """Holds what is known about a handover from the newest reports."""

    in_force: bool = False
    """Every site that the step concerns and that is needed for it has applied an assignment of the step."""
    subscribed: bool = False
    """The successor holds, or will get, every input from a known epoch on; or it has every window whole from a known
    instant on."""
    ready: bool = False
    """It has all that the old task has not emitted, and has caught up."""
    taken_over: bool = False
    had_cut: bool = False
    """The old task has ended its channel for the successor."""
    ended: bool = False
    """The old task has ended for good, because its inputs have."""
    drained: bool = False
    """Every reader has acknowledged the whole of the old channel."""
    unwanted: str = ""
    """Why the handover is to be rolled back; empty: it is not."""


def event(handover: Handover, told: Told) -> Event | None:
    """Return what has happened since the step; None: it is still waited for."""
    match handover.step:
        case Step.REGISTERED:
            return _or_given_up(Event.KEPT if told.in_force else None, told)
        case Step.STARTED:
            return _or_given_up(Event.SUBSCRIBED if told.in_force and told.subscribed else None, told)
        case Step.SEEDING:
            return _or_given_up(Event.READY if told.ready else None, told)
        case Step.CUT:
            if told.taken_over:
                return Event.TAKEN_OVER
            if told.ended and not told.had_cut:
                return Event.KEPT_ON
            # The successor has to go on with a channel that the old task has ended.
            return None if told.had_cut else _or_given_up(None, told)
        case Step.WITHDRAWN:
            if told.taken_over:
                return Event.TAKEN_OVER
            if told.had_cut:
                return Event.HAD_CUT
            return Event.KEPT_ON if told.in_force or told.ended else None
        case Step.TAKEN:
            return Event.DRAINED if told.drained else None
        case Step.BACK:
            return Event.CLEARED if told.in_force else None


def has_emitted(handover: Handover, needed_us: int | None, out_us: int | None) -> bool:
    """Return whether the old task has emitted every window of which a task that begins in the middle lacks rows.

    Args:
        handover: as it is stored.
        needed_us: the watermark with which these windows are out; None: it is not known yet.
        out_us: the watermark of the old task's channel; None: nothing is out.
    """
    if not handover.begins_late:
        return True
    return needed_us is not None and out_us is not None and out_us >= needed_us


def _or_given_up(found: Event | None, told: Told) -> Event | None:
    """Nothing is begun that is not wanted any more."""
    if told.unwanted or (told.ended and not told.had_cut):
        return Event.GIVEN_UP
    return found


def unwanted(handover: Handover, now: datetime, *, patience: timedelta, withdrawn: str = "") -> str:
    """Why a handover is to be rolled back; empty: it is not.

    Args:
        handover: as it is stored.
        now: the time.
        patience: how long one step may take.
        withdrawn: why nobody wants it any more; empty: it is wanted.
    """
    if withdrawn:
        return withdrawn
    if now - handover.step_since < patience:
        return ""
    return f"{_AWAITED[handover.step]} within {patience.total_seconds():.0f} s"


_AWAITED = {
    Step.REGISTERED: "not all producers of its inputs were heard of",
    Step.STARTED: "the new task did not subscribe to its inputs",
    Step.SEEDING: "the new task did not catch up",
    Step.CUT: "the old task did not end its channel",
    Step.WITHDRAWN: "the old task was not heard of",
    Step.TAKEN: "the old channel was not read to its end",
    Step.BACK: "not all sites were heard of",
}
