from __future__ import annotations

import os
import signal
import subprocess
import sys

from selat.local.identity import ProcessIdentity


def test_this_process_is_alive() -> None:
    assert ProcessIdentity.of(os.getpid()).alive


def test_another_process_with_the_same_number_is_not_it() -> None:
    here = ProcessIdentity.of(os.getpid())
    earlier = ProcessIdentity(here.pid, here.started_ticks - 1)
    assert not earlier.alive
    assert not earlier.send(signal.SIGKILL)


def test_a_process_that_ended_is_not_alive_even_before_it_is_reaped() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessIdentity.of(process.pid)
    assert identity.alive
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not identity.alive
    process.wait()
    assert not identity.send(signal.SIGTERM)
