"""Why a task cannot be moved."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from planner.graph.ids import TaskId
from planner.handover.model import Lineage
from planner.handover.refusals import AGAIN_AFTER, MOVABLE, Move, may_leave, refusal
from planner.values.stages import StageKind

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MOVE = Move("q-0001-aaaaaa.m1.p0", StageKind.MERGE, "eu", "us", able=True)


@pytest.mark.parametrize("kind", MOVABLE)
def test_what_can_be_moved(kind: StageKind) -> None:
    assert refusal(replace(MOVE, kind=kind)) is None


@pytest.mark.parametrize("kind", [kind for kind in StageKind if kind not in MOVABLE])
def test_what_stays(kind: StageKind) -> None:
    assert refusal(replace(MOVE, kind=kind)) is not None


@pytest.mark.parametrize(
    ("move", "told"),
    [
        (replace(MOVE, to_site="eu"), "is at eu already"),
        (replace(MOVE, kind=StageKind.COMBINE, beside_source=True), "combines the rows of a source"),
        (replace(MOVE, able=False), "takes no new tasks"),
        (replace(MOVE, slots="all are taken"), "has no slot for the task: all are taken"),
        (replace(MOVE, under_way="asia"), "on its way to asia"),
        (replace(MOVE, busy=("q-0001-aaaaaa.f1.p0",)), "f1.p0, next to it, is moving"),
        (replace(MOVE, versions={"us": "0.0.9"}), "us (0.0.9)"),
        (replace(MOVE, without_state=True, reads_table=True), "because it reads a table"),
        (replace(MOVE, without_state=True, kind=StageKind.DERIVE), "because it is a derive task"),
        (replace(MOVE, without_state=True, takes_again=True), "what comes out may be of rows that came long before"),
    ],
    ids=str,
)
def test_why_not_now(move: Move, told: str) -> None:
    found = refusal(move)
    assert found is not None
    message, hint = found
    assert told in message
    assert hint


def test_a_query_may_have_a_task_of_its_own_beside_the_shared_one() -> None:
    alone = replace(MOVE, to_site="eu", without_state=True, alone=True)
    assert refusal(alone) is None
    assert refusal(replace(alone, kind=StageKind.DERIVE, without_state=False)) is None
    found = refusal(replace(alone, kind=StageKind.FINAL))
    assert found is not None
    assert found[1] == "move it for all queries"


def test_what_leaves_a_draining_site_and_when_again() -> None:
    place = TaskId("q-0001-aaaaaa", "m1")
    here = Lineage(place)
    assert may_leave(StageKind.MERGE, here, NOW)
    assert not may_leave(StageKind.SOURCE, here, NOW)
    assert may_leave(StageKind.COMBINE, here, NOW)
    assert not may_leave(StageKind.COMBINE, here, NOW, beside_source=True)
    going = here.asked("eu", "us", NOW)
    assert not may_leave(StageKind.MERGE, going, NOW)
    back = going.rolled_back(NOW)
    assert not may_leave(StageKind.MERGE, back, NOW + AGAIN_AFTER - timedelta(seconds=1))
    assert may_leave(StageKind.MERGE, back, NOW + AGAIN_AFTER)
    assert may_leave(StageKind.MERGE, going.moved(3, NOW), NOW)
