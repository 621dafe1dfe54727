"""A cluster in the background: starts it, and stops it from another process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta

from machine.private import opener
from selat.dev.child import Report, log_tail
from selat.dev.cluster import START_TIMEOUT, STOP_GRACE
from selat.dev.state import ClusterState, DataDirectory
from selat.local.errors import DevError

_POLL_S = 0.1
_MARGIN = timedelta(seconds=10)
"""The time that a supervisor may take in addition to that of its children."""


def start_in_background(arguments: Sequence[str], data: DataDirectory, *, report: Report) -> ClusterState:
    """Run `selat dev ARGUMENTS` in a session of its own, and wait until the cluster serves.

    Raises DevError when it does not come to that; nothing is left running then.
    """
    data.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(data.own_log, "wb", opener=opener) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "selat", "dev", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        return _await_state(process, data, report)
    except BaseException:
        process.terminate()
        raise


def stop_in_background(data: DataDirectory, state: ClusterState, *, report: Report) -> None:
    """Stop a cluster that another process supervises, and wait until it is gone."""
    if not state.supervisor.send(signal.SIGTERM):
        return
    if not _gone(state, STOP_GRACE + _MARGIN):
        report(f"process {state.supervisor.pid} does not stop; killing it and its children")
        state.supervisor.send(signal.SIGKILL)
        if not _gone(state, _MARGIN):
            raise DevError.of(f"process {state.supervisor.pid} cannot be killed", hint=f"look into {data.logs}")
    data.forget()


def _await_state(process: subprocess.Popen[bytes], data: DataDirectory, report: Report) -> ClusterState:
    deadline = time.monotonic() + (START_TIMEOUT + _MARGIN).total_seconds()
    with data.own_log.open() as log:
        while time.monotonic() < deadline:
            over = process.poll() is not None
            for line in log:
                report(line.rstrip("\n"))
            if over:
                raise DevError.of("the cluster did not start; what it said is above", hint=f"its log is {data.own_log}")
            state = data.running()
            if state and state.ready and state.supervisor.pid == process.pid:
                return state
            time.sleep(_POLL_S)
    tail = log_tail(data.own_log)
    raise DevError.of(f"the cluster does not serve in time:\n{tail}", hint=f"its log is {data.own_log}")


def _gone(state: ClusterState, within: timedelta) -> bool:
    deadline = time.monotonic() + within.total_seconds()
    while state.supervisor.alive:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
