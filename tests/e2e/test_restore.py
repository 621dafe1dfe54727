"""The master's state is lost and restored from a backup, under running agents, producers and queries."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.dataset import SITES
from tests.e2e.faults import free_port
from tests.e2e.members import Member, agent_command, connected, master_command
from tests.e2e.workload import STREAM, Workload

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.kills, pytest.mark.timeout(600)]

OTHER = f"SELECT id, amount FROM {STREAM} WHERE amount > 1"


def state_command(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "master", *arguments], check=True, timeout=60)


def submit(client: selat.Client) -> selat.Query:
    """A query that runs."""
    query = client.sql(OTHER)
    assert isinstance(query, selat.Query)
    wait_until(lambda: query.state() is selat.QueryState.RUNNING)
    return query


def test_queries_go_on_end_or_are_refused_after_the_state_was_restored(tmp_path: Path) -> None:
    address, backup = f"127.0.0.1:{free_port()}", str(tmp_path / "backup")
    workload = Workload(address, tmp_path / "sink")
    with ExitStack() as stack:
        first = stack.enter_context(Member(tmp_path / "first", master_command(tmp_path, address)))
        stack.enter_context(Member(tmp_path / "agent", agent_command(tmp_path, address, *SITES)))
        with connected(address) as client:
            wait_until(lambda: all(site.state is selat.SiteState.ALIVE for site in client.sites()))
            workload.begin(client)
            ended = submit(client)
            state_command("backup", "--data", str(tmp_path / "state"), "--to", backup)
            ended.cancel()
            ended.wait()
            unknown = submit(client)
        first.kill()
        state_command("restore", "--data", str(tmp_path / "restored"), "--from", backup)
        stack.enter_context(Member(tmp_path / "second", master_command(tmp_path, address, state="restored")))
        with connected(address) as client:
            wait_until(lambda: client.query(ended.id).state() is selat.QueryState.FAILED)
            assert "restored from a backup" in client.query(ended.id).info().reason
            with pytest.raises(selat.NotFound):
                client.query(unknown.id)
            wait_until(lambda: all(unknown.id not in repr(site.tasks) for site in client.sites()))
            new = submit(client)
            wait_until(lambda: new.info().rows_out > 0)
            workload.finish(client)
