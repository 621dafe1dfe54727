"""A query that runs is planned once more, with tasks that combine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from master.base.errors import HandoverRefusedError
from master.planning.recombining import Recombiner
from master.records.model import BatchState
from planner.sharing.swapping import Recombine, combines, refusal, told
from planner.values.trees import Tree
from tests.unit.master.build import batch_query, query
from tests.unit.master.planning.test_submission import SUM, World


async def test_the_new_plan_differs_in_what_combines_alone() -> None:
    world = World()
    written = await world.plan(SUM)
    record = replace(query(), plan=written, sql=SUM)
    flat = await Recombiner(world.planner).planned(record, Tree())
    assert told(flat) == "c1 at eu, us"
    over_us = await Recombiner(world.planner).planned(record, Tree({"eu": "us"}))
    assert [stage.pinned for stage in combines(over_us)] == [("eu",), ("us",)]
    for wanted in (flat, over_us):
        assert refusal(Recombine(record.id, written, wanted, "hub")) is None
    assert refusal(Recombine(record.id, written, await world.plan("SELECT user_id FROM clicks"), "hub")) is not None


async def test_a_query_over_tables_is_refused() -> None:
    record = replace(batch_query(BatchState(())), sql="SELECT page FROM pages")
    with pytest.raises(HandoverRefusedError, match="reads no stream"):
        await Recombiner(World().planner).planned(record, None)
