"""Two sites, each a process, die by SIGKILL at each step of the data plane, and are started again: every row once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from selat.v1 import site_pb2
from site_agent.base.faults import FaultPoint
from tests.integration.small_disk import half_files
from tests.integration.two_sites import (
    MERGE,
    SITES,
    assignment,
    batch,
    combining,
    derived,
    expected,
    expected_classes,
    filtered_batch,
    over_a_site,
    parted,
    ranged,
    stored_results,
    two_sites,
)

pytestmark = pytest.mark.timeout(300)

LIMIT_S = 200.0
"""Two such tests run at a time, on machines of two slow cores."""

_LONG = (pytest.mark.long, pytest.mark.kills)

MERGE_SITE_ONLY = frozenset(
    {
        FaultPoint.WINDOW_CLOSED,
        FaultPoint.WINDOW_PUBLISHED,
        FaultPoint.STATE_WRITTEN,
        FaultPoint.CHECKPOINT_SAVED,
        FaultPoint.STATE_REMOVED,
        FaultPoint.CHECKPOINT_DONE,
        FaultPoint.CHECKPOINT_ACKNOWLEDGED,
    }
)
"""Points that only the site with the merge passes; all others are passed at both."""
RANGES_ONLY = frozenset({FaultPoint.RUNS_MERGED, FaultPoint.CLOSING_STORED, FaultPoint.RANGE_PUBLISHED})
"""Points that only a merge passes whose rows have bins, and come again and again."""
HANDOVERS_ONLY = frozenset(
    {
        FaultPoint.SEED_WRITTEN,
        FaultPoint.SEED_STORED,
        FaultPoint.SEED_RESTORED,
        FaultPoint.CUT_STORED,
        FaultPoint.INPUTS_RELEASED,
        FaultPoint.TAKEOVER_MARKED,
        FaultPoint.CHANNEL_BEGUN,
    }
)
"""Points that tests/integration/test_handover.py has."""
EVERYWHERE = [point for point in FaultPoint if point not in RANGES_ONLY | HANDOVERS_ONLY]
OFTEN = frozenset(
    {
        FaultPoint.FILE_WRITTEN,
        FaultPoint.EPOCH_WRITTEN,
        FaultPoint.EPOCH_RENAMED,
        FaultPoint.EPOCH_COMMITTED,
        FaultPoint.EPOCH_COMPUTED,
        FaultPoint.EPOCH_SENT,
    }
)
"""Points that a source's site passes for each epoch. How often it passes the others depends on how many epochs are
received, merged or acknowledged together, which on a busy machine may be all."""
KEPT = (FaultPoint.WINDOW_PUBLISHED, FaultPoint.CHECKPOINT_SAVED, FaultPoint.COPY_STORED, FaultPoint.ACK_TAKEN)


def _others_are_long(*kept: FaultPoint) -> list[object]:
    """All points. Simulated clusters do the same work and are killed at each of them, so that real ones need few."""
    return [point if point in kept else pytest.param(point, marks=_LONG) for point in EVERYWHERE]


@pytest.mark.parametrize("point", _others_are_long(*OFTEN, *KEPT), ids=lambda point: point.value)
async def test_sites_that_die_there_go_on_after_it(tmp_path: Path, point: FaultPoint) -> None:
    passage = 2 if point in OFTEN else 1
    async with two_sites(tmp_path, fault=f"{point.value}:{passage}") as (orders, mortals):
        async with asyncio.timeout(LIMIT_S):
            await orders.complete()
            await orders.over()
            await orders.obeyed(2)
        assert sorted(mortals.deaths) == (["jfk"] if point in MERGE_SITE_ONLY else ["ewr", "jfk"])

    assert stored_results(tmp_path) == expected()
    left = [path.name for site in SITES for path in (tmp_path / site / "channels").iterdir()]
    assert left == [MERGE]
    assert half_files(tmp_path) == []


RANGED = (
    FaultPoint.STATE_WRITTEN,
    FaultPoint.RUNS_MERGED,
    FaultPoint.REPLACEMENT_WRITTEN,
    FaultPoint.CHECKPOINT_SAVED,
    FaultPoint.STATE_REMOVED,
    FaultPoint.CHECKPOINT_DONE,
    FaultPoint.CHECKPOINT_ACKNOWLEDGED,
    FaultPoint.WINDOW_CLOSED,
    FaultPoint.CLOSING_STORED,
    FaultPoint.RANGE_PUBLISHED,
    FaultPoint.WINDOW_PUBLISHED,
)


@pytest.mark.parametrize("point", RANGED, ids=lambda point: point.value)
async def test_a_merge_that_closes_range_by_range_goes_on_where_it_died(tmp_path: Path, point: FaultPoint) -> None:
    async with two_sites(tmp_path, fault=f"{point.value}:1", work=ranged) as (orders, mortals):
        async with asyncio.timeout(LIMIT_S):
            await orders.complete()
            await orders.over()
            await orders.obeyed(2)
        assert "jfk" in mortals.deaths

    assert stored_results(tmp_path) == expected_classes()
    assert half_files(tmp_path) == []


@pytest.mark.parametrize("point", _others_are_long(FaultPoint.EPOCH_RENAMED), ids=lambda point: point.value)
async def test_parts_of_a_merge_at_two_sites_survive_their_deaths(tmp_path: Path, point: FaultPoint) -> None:
    passage = 2 if point in OFTEN else 1
    async with two_sites(tmp_path, fault=f"{point.value}:{passage}", work=parted) as (orders, mortals):
        async with asyncio.timeout(LIMIT_S):
            await orders.complete()
            late = sum(task.rows_late for report in orders.reports.values() for task in report.tasks)
            await orders.over()
            await orders.obeyed(2)
        assert sorted(mortals.deaths) == ["ewr", "jfk"]

    assert stored_results(tmp_path) == expected()
    assert late == 0
    assert half_files(tmp_path) == []


@pytest.mark.parametrize("point", _others_are_long(FaultPoint.EPOCH_RENAMED), ids=lambda point: point.value)
async def test_sites_that_combine_go_on_after_their_death(tmp_path: Path, point: FaultPoint) -> None:
    """Groups of open windows leave at each epoch, and are in no epoch twice."""
    # All that it sends may be few epochs, when many are acknowledged together.
    passage = 4 if point in OFTEN - {FaultPoint.EPOCH_SENT} else 1
    async with two_sites(tmp_path, fault=f"{point.value}:{passage}", work=combining) as (orders, mortals):
        async with asyncio.timeout(LIMIT_S):
            await orders.complete()
            await orders.over()
            await orders.obeyed(2)
        assert "jfk" in mortals.deaths

    assert stored_results(tmp_path) == expected()
    left = [path.name for site in SITES for path in (tmp_path / site / "channels").iterdir()]
    assert left == [MERGE]
    assert half_files(tmp_path) == []


@pytest.mark.parametrize("point", _others_are_long(FaultPoint.EPOCH_RENAMED), ids=lambda point: point.value)
async def test_a_site_between_goes_on_after_its_death(tmp_path: Path, point: FaultPoint) -> None:
    """It combines what another site combined with what it has, and a third task merges what both send; only it dies."""
    # All that it sends on may be one epoch.
    passage = 4 if point in OFTEN - {FaultPoint.EPOCH_SENT} else 1
    fault = f"{point.value}:{passage}"
    async with two_sites(tmp_path, fault=fault, work=over_a_site, mortal=("jfk",)) as (orders, mortals):
        async with asyncio.timeout(LIMIT_S):
            await orders.complete()
            late = sum(task.rows_late for report in orders.reports.values() for task in report.tasks)
            await orders.over()
            await orders.obeyed(2)
        assert mortals.deaths == ["jfk"]

    assert stored_results(tmp_path) == expected()
    assert late == 0
    assert half_files(tmp_path) == []


BATCH = (
    (FaultPoint.FILE_WRITTEN, 1),
    (FaultPoint.EPOCH_WRITTEN, 1),
    (FaultPoint.EPOCH_RENAMED, 2),
    (FaultPoint.EPOCH_COMMITTED, 1),
    (FaultPoint.EPOCH_COMPUTED, 1),
    (FaultPoint.END_STORED, 1),
    (FaultPoint.EPOCH_SENT, 1),
    (FaultPoint.ASSIGNMENT_STORED, 1),
)
"""Points that both sites pass while a batch query runs, and the passage to die at."""
REDUCING = (
    (FaultPoint.EPOCH_COMPUTED, 3),
    (FaultPoint.END_STORED, 3),
    (FaultPoint.COPY_RECEIVED, 1),
    (FaultPoint.COPY_STORED, 2),
    (FaultPoint.READERS_STORED, 1),
)
"""The same, of the site that reduces: its third epoch is the result."""


@pytest.mark.parametrize(
    ("point", "passage"), [*BATCH, *REDUCING], ids=lambda value: str(getattr(value, "value", value))
)
async def test_a_batch_query_survives_the_death_of_its_sites(tmp_path: Path, point: FaultPoint, passage: int) -> None:
    async with two_sites(tmp_path, fault=f"{point.value}:{passage}", work=batch) as (orders, mortals):
        async with asyncio.timeout(LIMIT_S):
            await orders.complete()
            await orders.over()
            await orders.obeyed(2)
        assert "jfk" in mortals.deaths

    assert stored_results(tmp_path) == expected()
    assert half_files(tmp_path) == []


FILTERED = (
    *((FaultPoint.EPOCH_COMPUTED, passage) for passage in range(1, 6)),
    *((FaultPoint.END_STORED, passage) for passage in range(1, 6)),
    (FaultPoint.EPOCH_COMMITTED, 2),
    (FaultPoint.EPOCH_SENT, 1),
    (FaultPoint.COPY_RECEIVED, 1),
    (FaultPoint.COPY_STORED, 1),
    (FaultPoint.COPY_STORED, 2),
)
"""Points of a site that sends keys, keys by keys, and rows by those, and reduces: five epochs and ends."""


@pytest.mark.parametrize(("point", "passage"), FILTERED, ids=lambda value: str(getattr(value, "value", value)))
async def test_filters_by_keys_survive_the_death_of_their_sites(
    tmp_path: Path, point: FaultPoint, passage: int
) -> None:
    async with two_sites(tmp_path, fault=f"{point.value}:{passage}", work=filtered_batch) as (orders, mortals):
        async with asyncio.timeout(LIMIT_S):
            await orders.complete()
            await orders.over()
            await orders.obeyed(2)
        assert "jfk" in mortals.deaths

    assert stored_results(tmp_path) == expected()


GREEDY = "greedy.s1.jfk"


def beside_a_greedy_task(addresses: dict[str, str], site: str, *, interval_ms: int) -> site_pb2.Assignment:
    """At jfk, the source of another query ends the process in each of its epochs."""
    given = assignment(addresses, site, interval_ms=interval_ms)
    if site == "jfk":
        source = given.tasks.add()
        source.CopyFrom(given.tasks[0])
        source.task_id, source.query_id, source.sql = GREEDY, "greedy", "without heap"
    return given


async def test_a_task_that_ends_its_agent_again_and_again_fails_and_all_others_go_on(tmp_path: Path) -> None:
    async with two_sites(tmp_path, work=beside_a_greedy_task) as (orders, mortals):
        async with asyncio.timeout(LIMIT_S):
            reason = await orders.told("jfk", GREEDY, site_pb2.TASK_STATE_FAILED)
            await orders.complete()
            states = {task.task_id: task.state for task in orders.reports["jfk"].tasks}
            await orders.over()
            await orders.obeyed(2)
        assert mortals.deaths == ["jfk"] * 3

    assert reason.startswith("the heap of site jfk (1g) was too small 3 times in a row while it ran")
    assert set(states) - {GREEDY} == {MERGE, "q.s1.jfk"}
    assert site_pb2.TASK_STATE_FAILED not in {state for task, state in states.items() if task != GREEDY}
    assert stored_results(tmp_path) == expected()
    assert json.loads((tmp_path / "jfk" / "crashes" / "state.json").read_bytes())["suspicions"] == {}


DERIVING = (
    (FaultPoint.EPOCH_COMPUTED, 5),
    # Of an epoch that has the rows of several: before, behind it, and between those that follow.
    (FaultPoint.EPOCH_RENAMED, 9),
    (FaultPoint.EPOCH_COMMITTED, 6),
    (FaultPoint.EPOCH_COMMITTED, 11),
    (FaultPoint.CURSORS_STORED, 3),
)


@pytest.mark.parametrize(("point", "passage"), DERIVING, ids=lambda value: str(getattr(value, "value", value)))
async def test_what_is_made_of_channels_survives_the_death_of_its_site(
    tmp_path: Path, point: FaultPoint, passage: int
) -> None:
    async with two_sites(tmp_path, fault=f"{point.value}:{passage}", work=derived) as (orders, mortals):
        async with asyncio.timeout(LIMIT_S):
            await orders.complete()
            await orders.over()
            await orders.obeyed(2)
        assert "jfk" in mortals.deaths

    assert stored_results(tmp_path) == expected()
    assert half_files(tmp_path) == []
