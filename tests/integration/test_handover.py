"""A merge moves to another site while its query runs, and each process dies at each step: every row once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from selat.v1 import site_pb2
from site_agent.base.faults import FaultPoint
from tests.integration.moving_agents import moving_agents
from tests.integration.moving_sites import (
    CUT,
    FINAL,
    FINAL_SITE,
    MOVING_SITES,
    NEW,
    NEW_SITE,
    OLD,
    OLD_SITE,
    ONE_WINDOW_IN_BINS,
    SEED,
    moving_sites,
    rows_of,
    stored,
)
from tests.integration.two_sites import expected, expected_classes

pytestmark = pytest.mark.timeout(300)

STEPS = (
    (OLD_SITE, FaultPoint.SEED_WRITTEN),
    (OLD_SITE, FaultPoint.SEED_STORED),
    (NEW_SITE, FaultPoint.SEED_RESTORED),
    (OLD_SITE, FaultPoint.CUT_STORED),
    (OLD_SITE, FaultPoint.INPUTS_RELEASED),
    (NEW_SITE, FaultPoint.TAKEOVER_MARKED),
    (NEW_SITE, FaultPoint.CHANNEL_BEGUN),
)
OTHERS = (
    (OLD_SITE, f"{FaultPoint.CHECKPOINT_SAVED.value}:2"),
    (OLD_SITE, FaultPoint.END_STORED.value),
    (NEW_SITE, FaultPoint.READERS_STORED.value),
    (NEW_SITE, f"{FaultPoint.COPY_STORED.value}:4"),
    (NEW_SITE, FaultPoint.STATE_WRITTEN.value),
    (NEW_SITE, f"{FaultPoint.CHECKPOINT_DONE.value}:2"),
    (NEW_SITE, FaultPoint.WINDOW_PUBLISHED.value),
    (FINAL_SITE, f"{FaultPoint.READERS_STORED.value}:4"),
    (FINAL_SITE, f"{FaultPoint.ACK_SENT.value}:2"),
    (FINAL_SITE, f"{FaultPoint.CHECKPOINT_SAVED.value}:2"),
)
"""Points that are not of handovers, and passages of them that come in one."""


def check(root: Path) -> None:
    """The results are those of a query of which nothing moves, and the new channel goes on where the old one ends."""
    results = [(row["w"].microsecond, row["n"], row["v"]) for row in rows_of(stored(root, "sfo", FINAL))]
    assert sorted(results) == expected()
    old, new = stored(root, "ewr", OLD), stored(root, "ewr", NEW)
    assert old.end is not None
    assert new.end is not None
    assert (old.end.successor_channel, old.end.last_epoch) == (NEW, old.next_epoch - 1)
    assert new.first_epoch == old.next_epoch
    rows = rows_of(old) + rows_of(new, new.first_epoch)
    assert sorted((row["_window_start"].microsecond, row["n"], row["v"]) for row in rows) == expected()
    manifests = [old.epochs.manifest(e) for e in range(old.next_epoch)]
    manifests += [new.epochs.manifest(e) for e in range(new.first_epoch, new.next_epoch)]
    watermarks = [m.watermark_us for m in manifests if m.watermark_us is not None]
    assert watermarks == sorted(watermarks)
    assert manifests[old.next_epoch - 1].watermark_us == old.end.closed_us


def check_ranges(root: Path) -> None:
    """Check, as `check` does, a result of one window that is closed range by range."""
    results = rows_of(stored(root, "sfo", FINAL))
    assert sorted((row["w"].microsecond, row["n"], row["v"]) for row in results) == expected_classes()
    old, new = stored(root, "ewr", OLD), stored(root, "ewr", NEW)
    assert old.end is not None
    assert (rows_of(old), new.first_epoch) == ([], old.end.next_epoch)
    assert new.next_epoch > new.first_epoch + 2


@pytest.mark.parametrize(("site", "point"), STEPS, ids=lambda value: getattr(value, "value", value))
async def test_a_site_that_dies_there_goes_on_after_it(tmp_path: Path, site: str, point: FaultPoint) -> None:
    async with moving_sites(tmp_path, faults=[(site, point.value)]) as (move, mortals), asyncio.timeout(90):
        await move.to_drained()
        await move.to_end()
        assert mortals.deaths == [site]
    check(tmp_path)


@pytest.mark.parametrize(("site", "fault"), OTHERS)
async def test_any_site_may_die_while_a_merge_moves(tmp_path: Path, site: str, fault: str) -> None:
    async with moving_sites(tmp_path, faults=[(site, fault)]) as (move, mortals), asyncio.timeout(90):
        await move.to_drained()
        await move.to_end()
        assert mortals.deaths == [site]
    check(tmp_path)


async def test_a_state_in_bins_is_restored_by_a_site_that_dies_of_it(tmp_path: Path) -> None:
    fault = (NEW_SITE, FaultPoint.SEED_RESTORED.value)
    async with (
        moving_sites(tmp_path, faults=[fault], statements=ONE_WINDOW_IN_BINS) as (move, mortals),
        asyncio.timeout(90),
    ):
        await move.to_drained()
        await move.to_end()
        assert mortals.deaths == [NEW_SITE]
    check_ranges(tmp_path)


async def test_a_merge_moves_while_its_query_runs(tmp_path: Path) -> None:
    async with moving_agents(tmp_path) as (move, _), asyncio.timeout(150):
        await move.to_drained()
        await move.to_end()
    check(tmp_path)


async def test_rows_keep_their_bins_so_that_windows_close_range_by_range(tmp_path: Path) -> None:
    async with moving_agents(tmp_path, ONE_WINDOW_IN_BINS) as (move, _), asyncio.timeout(150):
        await move.to_drained()
        await move.to_end()
    check_ranges(tmp_path)


@pytest.mark.parametrize("away", MOVING_SITES)
async def test_a_site_may_be_away_at_the_cut(tmp_path: Path, away: str) -> None:
    """An assignment given out meanwhile is in force when the site is back; nothing else is asked of the master."""
    async with moving_agents(tmp_path) as (move, agents), asyncio.timeout(150):
        await move.to_restored()
        await agents.stop(away)
        agents.step = replace(agents.step, number=CUT)
        for site in MOVING_SITES:
            if site != away:
                await agents.give_to(site)
        await agents.start(away)
        await agents.until(NEW_SITE, NEW, lambda status: status.handover.taken_over)
        await move.to_drained_from_cut()
        await move.to_end()
    check(tmp_path)


async def test_a_cut_waits_while_the_query_is_paused(tmp_path: Path) -> None:
    async with moving_agents(tmp_path) as (move, agents), asyncio.timeout(150):
        await move.to_restored()
        await agents.give(replace(agents.step, number=CUT, paused=True))
        for site, task in ((OLD_SITE, OLD), (NEW_SITE, NEW)):
            await agents.until(site, task, lambda status: status.state == site_pb2.TASK_STATE_PAUSED)
        assert not agents.status(OLD_SITE, OLD).HasField("handover")
        await agents.give(replace(agents.step, paused=False))
        await move.to_drained_from_cut()
        await move.to_end()
    check(tmp_path)


async def test_what_is_taken_back_before_the_cut_leaves_nothing(tmp_path: Path) -> None:
    async with moving_agents(tmp_path) as (move, _), asyncio.timeout(150):
        await move.to_restored()
        await move.back()
        assert not (tmp_path / NEW_SITE / "tasks" / NEW).exists()
        kept = {path.name for path in (tmp_path / NEW_SITE / "channels").iterdir()}
        assert kept == {FINAL}
        assert not (tmp_path / OLD_SITE / "channels" / SEED).exists()
        await move.to_end()
    results = rows_of(stored(tmp_path, "sfo", FINAL))
    assert sorted((row["w"].microsecond, row["n"], row["v"]) for row in results) == expected()
    old = stored(tmp_path, "ewr", OLD)
    assert old.end is not None
    assert not old.end.successor_channel


async def test_a_version_that_wants_a_seed_may_be_skipped_over(tmp_path: Path) -> None:
    async with moving_agents(tmp_path) as (move, _), asyncio.timeout(150):
        await move.to_started()
        await move.give(CUT)
        await move.orders.until(NEW_SITE, NEW, lambda status: status.handover.taken_over)
        await move.to_drained_from_cut()
        await move.to_end()
    check(tmp_path)
