"""Members are asked to end while queries run, and are started again."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.dataset import SITES
from tests.e2e.faults import free_port
from tests.e2e.members import Member, agent_command, connected, master_command
from tests.e2e.workload import Workload

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.kills, pytest.mark.timeout(600)]


def test_members_that_end_in_order_are_known_to_have_ended_and_lose_nothing(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    # So long that only what the agent says can be the reason.
    master = master_command(tmp_path, address, "--heartbeat-timeout", "300")
    agent = agent_command(tmp_path, address, *SITES)
    workload = Workload(address, tmp_path / "sink")
    with ExitStack() as stack:
        masters = stack.enter_context(Member(tmp_path / "master", master))
        agents = stack.enter_context(Member(tmp_path / "agent", agent))
        with connected(address) as client:
            wait_until(lambda: all(site.state is selat.SiteState.ALIVE for site in client.sites()))
            workload.begin(client)
            assert agents.stop() == 0
            assert {site.state for site in client.sites()} == {selat.SiteState.UNREACHABLE}
        assert masters.stop() == 0
        stack.enter_context(Member(tmp_path / "master", master))
        stack.enter_context(Member(tmp_path / "agent", agent))
        with connected(address) as client:
            workload.finish(client)
