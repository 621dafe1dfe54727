"""Processes of a benchmark: run one way apart from the other, count CPU time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import psutil

LIMIT_S = 300.0
GRACE_S = 20.0


def in_own_process(module: str, arguments: Sequence[str], *, limit_s: float = LIMIT_S) -> Any:
    """What `python -m MODULE ARGUMENTS` prints as its last line, which is JSON.

    Raises:
        subprocess.SubprocessError: it failed or did not end in time.
    """
    command = [sys.executable, "-m", module, *arguments]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=limit_s)
    return json.loads(answer.stdout.splitlines()[-1])


def end_process(process: subprocess.Popen[str]) -> None:
    """By SIGTERM, so that it removes its files; by force when that takes too long."""
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_s(pids: Iterable[int] | None = None) -> float:
    """CPU seconds of these processes (None: this one) and all their descendants, those that ended included."""
    roots = [psutil.Process(pid) for pid in pids] if pids is not None else [psutil.Process()]
    total = 0.0
    for root in roots:
        for process in (root, *root.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            # The time of children that ended is in their parent's, once it has waited for them.
            total += times.user + times.system + times.children_user + times.children_system
    return total
