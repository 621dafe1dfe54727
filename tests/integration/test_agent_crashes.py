"""Two sites, each a process, die by SIGKILL at each step of the data plane, and are started again: every row once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from site_agent.faults import FaultPoint
from tests.integration.small_disk import half_files
from tests.integration.two_sites import MERGE, SITES, expected, stored_results, two_sites

pytestmark = pytest.mark.timeout(120)

MERGE_SITE_ONLY = frozenset(
    {
        FaultPoint.WINDOW_CLOSED,
        FaultPoint.WINDOW_PUBLISHED,
        FaultPoint.STATE_WRITTEN,
        FaultPoint.CHECKPOINT_SAVED,
        FaultPoint.CHECKPOINT_DONE,
        FaultPoint.CHECKPOINT_ACKNOWLEDGED,
    }
)
"""Points that only the site with the merge passes; all others are passed at both."""
ONCE = frozenset(
    {
        FaultPoint.ASSIGNMENT_STORED,
        FaultPoint.ASSIGNMENT_APPLIED,
        FaultPoint.READERS_STORED,
        FaultPoint.END_STORED,
        FaultPoint.CHANNEL_DOOMED,
        # How many acknowledgements there are depends on how many epochs each of them covers.
        FaultPoint.ACK_SENDING,
        FaultPoint.ACK_SENT,
        FaultPoint.ACK_RECEIVED,
        FaultPoint.ACK_TAKEN,
    }
)


@pytest.mark.parametrize("point", list(FaultPoint), ids=lambda point: point.value)
async def test_sites_that_die_there_go_on_after_it(tmp_path: Path, point: FaultPoint) -> None:
    passage = 1 if point in ONCE else 2
    async with two_sites(tmp_path, fault=f"{point.value}:{passage}") as (orders, mortals):
        async with asyncio.timeout(60):
            await orders.complete()
            await orders.over()
            await orders.obeyed(2)
        assert sorted(mortals.deaths) == (["jfk"] if point in MERGE_SITE_ONLY else ["ewr", "jfk"])

    assert stored_results(tmp_path) == expected()
    left = [path.name for site in SITES for path in (tmp_path / site / "channels").iterdir()]
    assert left == [MERGE]
    assert half_files(tmp_path) == []
