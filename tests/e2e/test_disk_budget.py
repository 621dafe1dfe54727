"""A site beyond its disk budget takes no more rows, says why, and loses none."""

from __future__ import annotations

from pathlib import Path

import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.dataset import SITES
from tests.e2e.faults import free_port
from tests.e2e.members import Member, agent_command, connected, master_command
from tests.e2e.workload import Workload

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.kills, pytest.mark.timeout(600)]


def test_queries_stand_still_beyond_the_budget_and_go_on_within_it(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    agent = agent_command(tmp_path, address, *SITES)
    workload = Workload(address, tmp_path / "sink")
    with Member(tmp_path / "master", master_command(tmp_path, address)), connected(address) as client:
        with Member(tmp_path / "agent", agent):
            wait_until(lambda: all(site.state is selat.SiteState.ALIVE for site in client.sites()))
            workload.begin(client)
        with Member(tmp_path / "agent", [*agent, "--disk-budget-bytes", "1"]):
            wait_until(lambda: all(reasons(site) for site in client.sites()))
            for site in client.sites():
                assert site.disk is not None
                assert site.disk.used_bytes > site.disk.budget_bytes == 1
                assert all(
                    reason.endswith("its budget is 1") or "its budget is 1;" in reason for reason in reasons(site)
                )
        with Member(tmp_path / "agent", agent):
            workload.finish(client)


def reasons(site: selat.Site) -> list[str]:
    """The reasons why tasks of the site wait."""
    return [task.reason for task in site.tasks if task.state is selat.TaskState.BACK_PRESSURED]
