"""Members of the version before are replaced one at a time under running queries: old and new ones work together."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from contextlib import ExitStack
from pathlib import Path

import pytest

import selat
from tests.deploy.releases import FIRST
from tests.e2e.cluster import wait_until
from tests.e2e.dataset import SITES
from tests.e2e.faults import free_port
from tests.e2e.members import Member, agent_command, connected, master_command
from tests.e2e.workload import Workload

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.kills, pytest.mark.timeout(1200)]

BEFORE = os.environ.get("SELAT_VERSION_BEFORE", FIRST)
"""The commit that members are upgraded from."""

ROOT = Path(__file__).parents[2]
PACKAGES = ("selat", "planner", "master", "site_agent", "machine", "contract")

ORDER = ("eu", "master", "us", "asia")
"""So that a new agent meets an old master, and a new master old agents."""


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The packages of the version before, out of the repository's history."""
    archive = subprocess.run(["git", "archive", BEFORE, *PACKAGES], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packages:
        packages.extractall(tmp_path / "before", filter="data")
    return tmp_path / "before"


def test_members_are_upgraded_one_at_a_time_and_nothing_is_lost_or_doubled(tmp_path: Path, before: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    commands = {"master": master_command(tmp_path, address), **{s: agent_command(tmp_path, address, s) for s in SITES}}
    workload = Workload(address, tmp_path / "sink")
    with ExitStack() as stack:
        members = {
            name: stack.enter_context(Member(tmp_path / name, command, code=before))
            for name, command in commands.items()
        }
        with connected(address) as client:
            wait_until(lambda: all_alive(client))
            workload.begin(client)
        for name in ORDER:
            assert members[name].stop() == 0
            stack.enter_context(Member(tmp_path / name, commands[name]))
            with connected(address) as client:
                wait_until(lambda client=client: all_alive(client))
                assert workload.states(client) == {selat.QueryState.RUNNING}
        with connected(address) as client:
            wait_until(lambda: all(site.disk for site in client.sites()))
            workload.finish(client)


def all_alive(client: selat.Client) -> bool:
    return all(site.state is selat.SiteState.ALIVE for site in client.sites())
