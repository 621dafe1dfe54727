"""One child process: starts it, waits until it serves, restarts it when it dies, and stops it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from machine.private import opener
from selat.dev.backoff import Backoff
from selat.local.errors import DevError

_LAUNCH = str(Path(__file__).with_name("launch.py"))
_READY_POLL_S = 0.05
_TAIL_LINES = 15

Report = Callable[[str], None]
"""Prints a line for people."""


class ChildState(Enum):
    """The state of a child."""

    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    """It died, and will be restarted."""
    STOPPED = "stopped"
    FAILED = "failed"
    """It never became ready, and is not restarted."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """The command to run, and the file by which it says that it serves."""

    name: str
    command: tuple[str, ...]
    log: Path
    """The file to which its output is appended."""
    ready_file: Path
    """Written by the child in one piece when it serves: a JSON object with its `pid`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are added to this process's environment."""


@dataclass(frozen=True, slots=True)
class ChildStatus:
    """A child as it is now."""

    name: str
    state: ChildState
    pid: int | None = None
    starts: int = 0
    exit_code: int | None = None
    """The exit code of the last process that died; negative: the signal that killed it."""
    ready: Mapping[str, Any] = field(default_factory=dict)
    """The content of its ready file."""


class Child:
    """A child process, and the thread that watches it.

    The thread that starts the process must outlive it: Linux takes a child's parent to be a thread.
    """

    def __init__(self, spec: ChildSpec, *, report: Report, backoff: Backoff | None = None) -> None:
        self.spec = spec
        self._report = report
        self._backoff = backoff or Backoff()
        self._changed = threading.Condition()
        self._status = ChildStatus(spec.name, ChildState.STARTING)
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name=f"child-{spec.name}", daemon=True)

    @property
    def status(self) -> ChildStatus:
        with self._changed:
            return self._status

    def start(self) -> None:
        """Starts the first process; returns at once."""
        for directory in (self.spec.log.parent, self.spec.ready_file.parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._thread.start()

    def await_ready(self, timeout: timedelta, *, not_pid: int | None = None) -> ChildStatus | None:
        """The child once it serves (as another process than `not_pid`), None when it does not in time.

        Raises DevError when it will not be tried again.
        """

        def settled() -> bool:
            now = self._status
            serving = now.state is ChildState.READY and now.pid != not_pid
            return serving or now.state in (ChildState.FAILED, ChildState.STOPPED)

        with self._changed:
            if not self._changed.wait_for(settled, timeout.total_seconds()):
                return None
            if self._status.state is not ChildState.READY:
                raise self._failure()
            return self._status

    def ask_to_stop(self) -> None:
        """Asks the process to end and takes care that it is not started again; returns at once."""
        with self._changed:
            self._stopping.set()
            self._signal(signal.SIGTERM)

    def await_stop(self, grace: timedelta) -> None:
        """Waits for the process to end, and kills it when it takes longer than `grace`."""
        if self._thread.ident is None:
            return
        self._thread.join(grace.total_seconds())
        if self._thread.is_alive():
            self._report(f"{self.spec.name} does not stop; killing it")
            with self._changed:
                self._signal(signal.SIGKILL)
            self._thread.join()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _watch(self) -> None:
        while (process := self._spawn()) is not None:
            started = time.monotonic()
            served = self._await_ready_file(process)
            code = process.wait()
            if self._stopping.is_set():
                break
            if not served and self.status.starts == 1:
                self._set(state=ChildState.FAILED, pid=None, exit_code=code)
                return
            pause_s = self._backoff.pause_s(time.monotonic() - started)
            self._set(state=ChildState.WAITING, pid=None, exit_code=code, ready={})
            self._report(f"{self.spec.name} {_death(code)}; starting it again in {pause_s:g} s")
            self._stopping.wait(pause_s)
        self._set(state=ChildState.STOPPED, pid=None, ready={})

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        with self._changed:
            if self._stopping.is_set():
                return None
            self.spec.ready_file.unlink(missing_ok=True)
            with open(self.spec.log, "ab", opener=opener) as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", _LAUNCH, str(os.getpid()), *self.spec.command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.spec.environment},
                    # A Ctrl-C on the terminal is for this process, which stops the children in order.
                    process_group=0,
                )
        self._set(state=ChildState.STARTING, pid=self._process.pid, starts=self.status.starts + 1)
        return self._process

    def _await_ready_file(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until the child serves or dies; returns whether it serves."""
        while True:
            ready = self._read_ready_file(process.pid)
            if ready is not None:
                self._set(state=ChildState.READY, ready=ready)
                if self.status.starts > 1 and not self._stopping.is_set():
                    self._report(f"{self.spec.name} is back")
                return True
            try:
                process.wait(_READY_POLL_S)
            except subprocess.TimeoutExpired:
                continue
            return False

    def _read_ready_file(self, pid: int) -> Mapping[str, Any] | None:
        try:
            content = json.loads(self.spec.ready_file.read_text())
        except FileNotFoundError:
            return None
        return content if content.get("pid") == pid else None

    def _set(self, **changes: Any) -> None:
        with self._changed:
            self._status = replace(self._status, **changes)
            self._changed.notify_all()

    def _failure(self) -> DevError:
        if self._status.state is ChildState.STOPPED:
            return DevError.of(f"{self.spec.name} was stopped", hint="start the cluster again")
        message = f"{self.spec.name} {_death(self._status.exit_code)} before it served:\n{log_tail(self.spec.log)}"
        return DevError.of(message, hint=f"the whole log is {self.spec.log}")


def log_tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log, indented; a note when there are none."""
    try:
        with log.open("rb") as file:
            size_bytes = file.seek(0, os.SEEK_END)
            file.seek(max(0, size_bytes - 16_384))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        text = ""
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:]) or "  (the log is empty)"


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
