from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from selat.dev.child import Child, ChildState, log_tail
from selat.local.errors import DevError
from selat.local.identity import ProcessIdentity
from tests.unit.selat.dev import programs

SOON = timedelta(seconds=20)


@contextmanager
def started(child: Child) -> Iterator[Child]:
    child.start()
    try:
        yield child
    finally:
        child.ask_to_stop()
        child.await_stop(timedelta(seconds=2))


def test_a_child_is_ready_when_its_ready_file_names_it(tmp_path: Path) -> None:
    with started(programs.child(tmp_path, programs.SERVE)) as child:
        status = child.await_ready(SOON)
        assert status is not None
        assert status.state is ChildState.READY
        assert status.starts == 1
        assert status.ready == {"pid": status.pid, "address": "127.0.0.1:1"}


def test_a_ready_file_of_another_process_does_not_count(tmp_path: Path) -> None:
    child = programs.child(
        tmp_path, "import pathlib, sys, signal; pathlib.Path(sys.argv[1]).write_text('{\"pid\": 1}'); signal.pause()"
    )
    with started(child):
        assert child.await_ready(timedelta(milliseconds=300)) is None


def test_a_child_that_is_killed_is_started_again(tmp_path: Path) -> None:
    said: list[str] = []
    with started(programs.child(tmp_path, programs.SERVE, said.append)) as child:
        first = child.await_ready(SOON)
        assert first is not None
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        second = child.await_ready(SOON, not_pid=first.pid)
        assert second is not None
        assert second.pid != first.pid
        assert (second.starts, second.exit_code) == (2, -signal.SIGKILL)
    assert said[0] == "one was killed by SIGKILL; starting it again in 0.01 s"
    assert "one is back" in said


def test_a_child_that_ends_before_it_serves_has_failed(tmp_path: Path) -> None:
    with started(programs.child(tmp_path, programs.FAIL)) as child:
        with pytest.raises(DevError, match=r"exit code 3 before it served:\n  no topology") as caught:
            child.await_ready(SOON)
        assert str(tmp_path / "logs" / "one.log") in caught.value.hint
        assert child.status.state is ChildState.FAILED


def test_a_child_that_is_not_ready_in_time_is_none(tmp_path: Path) -> None:
    with started(programs.child(tmp_path, programs.NEVER_READY)) as child:
        assert child.await_ready(timedelta(milliseconds=50)) is None


def test_a_stopped_child_stays_stopped(tmp_path: Path) -> None:
    with started(programs.child(tmp_path, programs.SERVE)) as child:
        status = child.await_ready(SOON)
        assert status is not None
        assert status.pid is not None
        identity = ProcessIdentity.of(status.pid)
        child.ask_to_stop()
        child.await_stop(SOON)
        assert child.status.state is ChildState.STOPPED
        assert not identity.alive
        with pytest.raises(DevError, match="one was stopped"):
            child.await_ready(SOON)


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    with started(programs.child(tmp_path, programs.IGNORE_SIGTERM, said.append)) as child:
        child.await_ready(SOON)
        child.ask_to_stop()
        child.await_stop(timedelta(milliseconds=50))
        assert child.status.state is ChildState.STOPPED
    assert said == ["one does not stop; killing it"]


def test_a_child_dies_with_the_process_that_watches_over_it(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, sys\n"
        "from datetime import timedelta\n"
        "from tests.unit.selat.dev import programs\n"
        "child = programs.child(pathlib.Path(sys.argv[1]), programs.IGNORE_SIGTERM)\n"
        "child.start()\n"
        "print(child.await_ready(timedelta(seconds=20)).pid, flush=True)\n"
        "signal.pause()\n"
    )
    root = Path(__file__).parents[4]
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as supervisor:
        assert supervisor.stdout is not None
        identity = ProcessIdentity.of(int(supervisor.stdout.readline()))
        assert identity.alive
        supervisor.kill()
    # The child's descriptors close when it is gone: nobody holds its log any more.
    _await_end(identity)
    assert not identity.alive


def _await_end(identity: ProcessIdentity) -> None:
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    import select

    select.select([descriptor], [], [], 20)
    os.close(descriptor)


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    assert log_tail(log) == "  (the log is empty)"
    log.write_text("\n".join(str(n) for n in range(100)))
    assert log_tail(log, 2) == "  98\n  99"
