"""Converts handovers to messages."""

from __future__ import annotations

from typing import Any

from contract.times import to_us
from planner.handover.model import Lineage, Step
from selat.v1 import handover_pb2 as pb

STEPS = {
    Step.REGISTERED: pb.MOVE_STEP_REGISTERED,
    Step.STARTED: pb.MOVE_STEP_STARTED,
    Step.SEEDING: pb.MOVE_STEP_SEEDING,
    Step.CUT: pb.MOVE_STEP_CUT,
    Step.TAKEN: pb.MOVE_STEP_TAKEN,
    Step.WITHDRAWN: pb.MOVE_STEP_WITHDRAWN,
    Step.BACK: pb.MOVE_STEP_BACK,
}


def query_of(lineage: Lineage) -> str:
    """Return the query whose task moves, or moved last, in a place: of a fork, the one that gets a task of its own."""
    found = lineage.handover or lineage.last
    return lineage.place.query if found is None or found.fork is None else found.fork.query


def move_to_proto(lineage: Lineage, *, runs: bool = True) -> pb.TaskMove | None:
    """Return the move of a place that is under way, else its last one; None when it never moved.

    `runs`: a query still needs the task.
    """
    under_way, last = lineage.handover, lineage.last
    found = under_way or last
    if found is None:
        return None
    fork, scaling = found.fork, found.scaling
    named: dict[str, Any] = {
        "query_id": query_of(lineage),
        "stage": str((lineage.place if fork is None else fork.task).vertex),
        "from_site": found.from_site,
        "to_site": found.to_site if fork is None else fork.site,
        "alone": fork is not None,
        "combined_by": found.swapped,
        "shared_with": "" if found.join is None else str(found.join.shared),
        "asked_at_us": to_us(found.asked_at),
    }
    if scaling is not None:
        named |= {"scaled_stage": scaling.stage, "part_sites": scaling.sites}
    if under_way is not None:
        return pb.TaskMove(
            **named,
            without_state=under_way.without_state,
            step=STEPS[under_way.step] if runs else pb.MOVE_STEP_ENDED,
            since_us=to_us(under_way.step_since),
            reason=under_way.unwanted or under_way.reason,
        )
    assert last is not None
    return pb.TaskMove(
        **named,
        step=pb.MOVE_STEP_MOVED if last.moved else pb.MOVE_STEP_ROLLED_BACK,
        since_us=to_us(last.ended_at),
        reason=last.reason,
    )
