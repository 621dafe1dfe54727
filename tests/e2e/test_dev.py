"""`selat dev` as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import selat
from selat.dev.state import DataDirectory
from tests.e2e.cluster import wait_until
from tests.jvm import ENVIRONMENT

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kills]

ROOT = Path(__file__).parents[2]


class Dev:
    """The command, with a data directory and a home of its own."""

    def __init__(self, directory: Path) -> None:
        self.data = DataDirectory(directory / "data")
        self.address = f"127.0.0.1:{_free_port()}"
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._environment = {
            **os.environ,
            **ENVIRONMENT,
            "XDG_STATE_HOME": str(directory / "state"),
            "PYTHONPATH": path,
        }

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "selat", "dev", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=self._environment, cwd=self.data.root.parent
        )

    def detach(self) -> subprocess.CompletedProcess[str]:
        return self("--listen", self.address, "--data", str(self.data.root), "--detach")

    def processes(self) -> list[psutil.Process]:
        """The supervisor and everything below it, the JVM included."""
        state = self.data.running()
        assert state is not None
        supervisor = psutil.Process(state.supervisor.pid)
        return [supervisor, *supervisor.children(recursive=True)]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    command = Dev(tmp_path)
    yield command
    command("stop", "--data", str(command.data.root))


def test_a_cluster_in_the_background(dev: Dev) -> None:
    started = dev.detach()
    assert started.returncode == 0, started.stderr
    names = {json.loads(line)["name"] for line in started.stdout.splitlines()}
    assert names == {"us", "eu", "asia", "master"}

    with selat.connect(dev.address) as client:
        assert {site.name for site in client.sites()} == {"us", "eu", "asia"}

    second = dev.detach()
    assert second.returncode == 1
    assert "a cluster already runs in" in second.stderr

    master = next(p.pid for p in dev.data.serving() if p.name == "master")
    os.kill(master, signal.SIGKILL)
    wait_until(lambda: any(p.name == "master" and p.pid != master for p in dev.data.serving()))
    with selat.connect(dev.address) as client:
        assert len(client.sites()) == 3
    assert "master was killed by SIGKILL; starting it again in 0.5 s" in dev.data.own_log.read_text()

    processes = dev.processes()
    assert any("java" in p.name() for p in processes)
    assert dev("stop").stderr.endswith("stopped\n")
    _, alive = psutil.wait_procs(processes, timeout=5)
    assert alive == []
    assert dev("status").returncode == 1


def test_everything_dies_with_its_supervisor(dev: Dev) -> None:
    assert dev.detach().returncode == 0
    processes = dev.processes()
    processes[0].kill()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert alive == []
    assert dev("stop").stderr == "no cluster is running\n"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
