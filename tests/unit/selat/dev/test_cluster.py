from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from selat.cli import cli
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from selat.dev.state import ClusterState, DataDirectory, DataLock
from selat.local.errors import DevError
from selat.local.identity import ProcessIdentity
from selat.local.topology import NYC


def started(data: Path, listen: str) -> None:
    DevCluster(NYC, data, ClusterOptions(listen=listen)).start()


def test_an_address_in_use_is_refused_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(DevError, match=f"cannot listen at {address}: Address already in use") as caught:
            started(tmp_path, address)
    assert "--listen" in caught.value.hint
    assert DataDirectory(tmp_path).running() is None
    DataLock(DataDirectory(tmp_path)).take().release()


@pytest.mark.parametrize("listen", ["7410", "localhost", "localhost:x", ":7410"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, listen: str) -> None:
    with pytest.raises(DevError, match="is not HOST:PORT"):
        started(tmp_path, listen)


def test_a_second_cluster_in_a_directory_is_refused_and_leaves_the_first_alone(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    lock = DataLock(directory).take()
    directory.write(ClusterState(ProcessIdentity.of(os.getpid()), "127.0.0.1:1", "/t.yaml", ready=True))
    second = DevCluster(NYC, tmp_path)
    with pytest.raises(DevError, match="a cluster already runs in"):
        second.start()
    second.stop()
    assert directory.running() is not None
    lock.release()


def test_sites_are_those_of_the_topology(tmp_path: Path) -> None:
    cluster = DevCluster(NYC, tmp_path)
    assert set(cluster.sites) == {"hub", "ewr", "jfk", "lga"}
    assert (cluster.address, dict(cluster.pids), dict(cluster.site_addresses)) == ("", {}, {})


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_stopping_nothing_is_no_error(nowhere: Path) -> None:
    result = CliRunner().invoke(cli, ["dev", "stop"])
    assert (result.exit_code, result.stderr) == (0, "no cluster is running\n")


def test_the_status_of_nothing_is_exit_code_1(nowhere: Path) -> None:
    result = CliRunner().invoke(cli, ["dev", "status"])
    assert (result.exit_code, result.stderr) == (1, "no cluster is running\n")


def test_the_status_lists_what_serves(nowhere: Path) -> None:
    directory = DataDirectory(nowhere / ".selat")
    directory.write(ClusterState(ProcessIdentity.of(os.getpid()), "127.0.0.1:1", "/t.yaml", ready=True))
    directory.ready_files.mkdir()
    (directory.ready_files / "agents.json").write_text('{"sites": {"us": "127.0.0.1:2"}, "pid": 11}')
    result = CliRunner().invoke(cli, ["dev", "status", "-o", "csv"])
    assert result.stdout == 'name,address,process,pid,metrics\nus,127.0.0.1:2,agents,11,""\n'
    assert result.stderr == "serving at 127.0.0.1:1, data in .selat\n"
