"""A framework of one's own on Selat's slots: counts the words of files, one task per slot.

    python examples/third_party_framework.py --master 127.0.0.1:7410 --prefer eu FILE...

It takes free slots (those of the preferred site first), waits when there are none, renews the leases of tasks that take
long, and gives each slot back when its task is done. Tasks run here; a real framework starts them at the slot's site.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta

import selat
from selat.framework import Framework
from selat.leases import Granted, Lease, Refused

LEASE = timedelta(seconds=10)
RENEW_BEFORE = timedelta(seconds=5)
PAUSE_S = 0.1

COUNT_WORDS = "import sys; print(sum(len(line.split()) for line in open(sys.argv[1], errors='replace')))"


@dataclass
class Task:
    """One file, at work under one lease."""

    file: str
    lease: Lease
    process: subprocess.Popen[str]
    renew_at: float


def main() -> int:
    """Exit code 0: every file was counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--master", help="HOST:PORT; default: SELAT_MASTER, else 127.0.0.1:7410")
    parser.add_argument("--prefer", default="", metavar="SITE", help="take slots of this site first")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    with selat.connect(options.master) as client:
        framework = client.register_framework("word-count", comment="the example")
        return run(client, framework, list(options.files), options.prefer)


def run(client: selat.Client, framework: Framework, files: list[str], prefer: str) -> int:
    """Start tasks as slots allow, until all are done."""
    running: list[Task] = []
    failed = 0
    while files or running:
        if files:
            lease = take(client, framework, prefer, wait=not running)
            if lease is not None:
                running.append(started(files.pop(0), lease))
        for task in [task for task in running if task.process.poll() is not None]:
            words, _ = task.process.communicate()
            framework.release([task.lease])
            running.remove(task)
            failed += task.process.returncode != 0
            print(f"{task.file}: {words.strip() or 'failed'} words, at {task.lease.slot}")
        for task in [task for task in running if time.monotonic() >= task.renew_at]:
            (outcome,) = framework.renew([task.lease], LEASE)
            if isinstance(outcome, Refused):  # The slot is somebody else's now: the work must end.
                task.process.kill()
            task.renew_at = next_renewal()
        time.sleep(PAUSE_S)
    return 1 if failed else 0


def take(client: selat.Client, framework: Framework, prefer: str, *, wait: bool) -> Lease | None:
    """A free slot, else (when nothing else is to be done) the first that becomes free."""
    slots = sorted(client.slots(), key=lambda info: (info.slot.site != prefer, info.waiters, info.slot))
    free = [info.slot for info in slots if info.free_by is None and info.reachable]
    for slot in free:
        (outcome,) = framework.acquire({slot: LEASE})
        if isinstance(outcome, Granted):
            return outcome.lease
    answer = framework.wait_for([info.slot for info in slots], LEASE, within=LEASE) if wait and slots else None
    if isinstance(answer, Refused):  # A quota, most likely: waiting would not help.
        sys.exit(f"{answer.slot}: {answer.text}")
    return answer


def started(file: str, lease: Lease) -> Task:
    process = subprocess.Popen([sys.executable, "-c", COUNT_WORDS, file], stdout=subprocess.PIPE, text=True)
    return Task(file, lease, process, next_renewal())


def next_renewal() -> float:
    return time.monotonic() + (LEASE - RENEW_BEFORE).total_seconds()


if __name__ == "__main__":
    sys.exit(main())
