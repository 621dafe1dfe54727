"""A merge moves to another site while its query runs, and each process dies at each step: every row once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from site_agent.base.faults import FaultPoint
from tests.integration.moving_sites import FINAL, NEW, NEW_SITE, OLD, OLD_SITE, moving_sites, rows_of, stored
from tests.integration.two_sites import expected

pytestmark = pytest.mark.timeout(120)

STEPS = (
    (OLD_SITE, FaultPoint.SEED_WRITTEN),
    (OLD_SITE, FaultPoint.SEED_STORED),
    (NEW_SITE, FaultPoint.SEED_RESTORED),
    (OLD_SITE, FaultPoint.CUT_STORED),
    (OLD_SITE, FaultPoint.INPUTS_RELEASED),
    (NEW_SITE, FaultPoint.TAKEOVER_MARKED),
    (NEW_SITE, FaultPoint.CHANNEL_BEGUN),
)


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


async def test_a_merge_moves_while_its_query_runs(tmp_path: Path) -> None:
    async with moving_sites(tmp_path) as move, asyncio.timeout(60):
        await move.to_drained()
        await move.to_end()
    check(tmp_path)


@pytest.mark.parametrize(("site", "point"), STEPS, ids=lambda value: getattr(value, "value", value))
async def test_a_site_that_dies_there_goes_on_after_it(tmp_path: Path, site: str, point: FaultPoint) -> None:
    async with moving_sites(tmp_path, faults=[(site, point.value)]) as move, asyncio.timeout(90):
        await move.to_drained()
        await move.to_end()
        assert move.mortals.deaths == [site]
    check(tmp_path)
