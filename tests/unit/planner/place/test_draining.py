"""Each kind of work at a draining site says why it is there."""

from __future__ import annotations

import pytest

from planner.place.draining import Work, WorkKind
from planner.values.stages import StageKind


@pytest.mark.parametrize("kind", WorkKind)
def test_every_kind_of_work_has_a_reason(kind: WorkKind) -> None:
    work = Work(kind, "q-1", "q-1.s1.eu", "clicks", "etl")
    assert work.reason
    assert "{" not in work.reason


@pytest.mark.parametrize("kind", StageKind)
def test_every_kind_of_stage_is_a_kind_of_work(kind: StageKind) -> None:
    assert WorkKind(kind.value).name == kind.name


def test_what_is_bound_to_the_site_cannot_move_and_what_has_ended_need_not() -> None:
    movable = {kind for kind in WorkKind if Work(kind).movable}
    operators = {WorkKind.MERGE, WorkKind.FINAL, WorkKind.REDUCE, WorkKind.DERIVE, WorkKind.COMBINE}
    assert movable == operators | {WorkKind.LEASE}
    assert not Work(WorkKind.COMBINE, beside_source=True).movable
    assert "born here" in Work(WorkKind.COMBINE, beside_source=True).reason
    assert not any(Work(kind, ended=True).movable for kind in WorkKind)
