"""Child programs of a few lines, in place of the servers."""

from __future__ import annotations

import sys
from pathlib import Path

from selat.dev.backoff import Backoff
from selat.dev.child import Child, ChildSpec, Report

ANNOUNCE = """
import json, os, pathlib, signal, sys, time
def announce(path):
    scratch = pathlib.Path(path + ".new")
    scratch.write_text(json.dumps({"pid": os.getpid(), "address": "127.0.0.1:1"}))
    scratch.replace(path)
"""

SERVE = ANNOUNCE + "announce(sys.argv[1]); print('serving', flush=True); signal.pause()"
IGNORE_SIGTERM = (
    ANNOUNCE + "signal.signal(signal.SIGTERM, signal.SIG_IGN); announce(sys.argv[1])\nwhile True: signal.pause()"
)
NEVER_READY = "import signal; signal.pause()"
FAIL = "import sys; print('no topology'); sys.exit(3)"


def spec(directory: Path, program: str) -> ChildSpec:
    """A child called `one` that runs the program with the path of its ready file."""
    ready = directory / "ready" / "one.json"
    return ChildSpec("one", (sys.executable, "-c", program, str(ready)), directory / "logs" / "one.log", ready)


def child(directory: Path, program: str, report: Report = lambda text: None) -> Child:
    """A child that is started again after a hundredth of a second."""
    return Child(spec(directory, program), report=report, backoff=Backoff(first_s=0.01, most_s=0.01))
