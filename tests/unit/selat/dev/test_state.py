from __future__ import annotations

import os
from pathlib import Path

import pytest

from selat.dev import state
from selat.dev.state import ClusterState, DataDirectory, DataLock
from selat.local.errors import DevError
from selat.local.files import write_json
from selat.local.identity import ProcessIdentity

HERE = ProcessIdentity.of(os.getpid())


def described(supervisor: ProcessIdentity = HERE) -> ClusterState:
    return ClusterState(supervisor=supervisor, master="127.0.0.1:7410", topology="/t.yaml", ready=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_running_cluster_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    assert directory.running() is None
    directory.write(described())
    assert directory.running() == described()
    directory.forget()
    assert directory.running() is None


def test_what_a_dead_cluster_left_behind_does_not_count(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.write(described(ProcessIdentity(HERE.pid, HERE.started_ticks - 1)))
    assert directory.running() is None


def test_a_state_file_that_is_cut_off_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text('{"supervisor"')
    assert DataDirectory(tmp_path).running() is None


def test_one_cluster_per_data_directory(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "new")
    held = DataLock(directory).take()
    with pytest.raises(DevError, match="a cluster already runs in") as caught:
        DataLock(directory).take()
    assert "selat dev stop" in caught.value.hint
    held.release()
    assert DataLock(directory).take().held


def test_serving_processes_are_those_with_a_ready_file(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    write_json(directory.ready_files / "master.json", {"address": "127.0.0.1:1", "pid": 10})
    write_json(directory.ready_files / "agents.json", {"sites": {"us": "127.0.0.1:2"}, "pid": 11})
    assert [(s.name, s.pid, s.addresses) for s in directory.serving()] == [
        ("agents", 11, {"us": "127.0.0.1:2"}),
        ("master", 10, {"master": "127.0.0.1:1"}),
    ]


def test_the_one_in_the_default_directory_goes_before_the_latest(home: Path) -> None:
    elsewhere = DataDirectory(home / "elsewhere")
    elsewhere.write(described())
    assert state.find_running(None) is None
    state.remember_latest(elsewhere)
    found = state.find_running(None)
    assert found is not None
    assert found[0] == elsewhere
    DataDirectory(state.DEFAULT_DATA).write(described())
    found = state.find_running(None)
    assert found is not None
    assert found[0].root == state.DEFAULT_DATA


def test_a_named_directory_is_the_only_one_looked_at(home: Path) -> None:
    DataDirectory(state.DEFAULT_DATA).write(described())
    assert state.find_running(home / "elsewhere") is None


def test_a_home_that_cannot_be_written_to_is_no_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    state.remember_latest(DataDirectory(home))
    assert state.latest() is None
