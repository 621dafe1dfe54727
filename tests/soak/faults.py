"""The faults of a plan, one after the other, on a thread of their own."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene
from tests.e2e.proxy import Cut
from tests.soak.plan import Break, Fault

RECOVERY_TIMEOUT_S = 180.0
_LIMITS = {Break.FULL: resource.RLIMIT_FSIZE, Break.MEMORY: resource.RLIMIT_AS}
"""The resource that is limited. A process beyond its size of files is told as of a full disk: the write fails."""


@dataclass
class Faults:
    """Breaks a cluster as planned, until there is nothing left to do or `stop` is set."""

    scene: Scene
    planned: tuple[Fault, ...]
    stop: threading.Event = field(default_factory=threading.Event)
    told: list[str] = field(default_factory=list)
    """Descriptions of the faults so far."""
    failure: BaseException | None = None
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """An error ends it, and is kept in `failure`."""
        try:
            for fault in self.planned:
                if self.stop.wait(fault.after_s):
                    return
                with self._one_at_a_time:
                    self.told.append(self._strike(fault))
        except BaseException as error:
            self.failure = error
            raise

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Everything serves, and nothing is broken inside the block."""
        with self._one_at_a_time:
            await_everything(self.scene)
            yield

    def _strike(self, fault: Fault) -> str:
        if fault.how in (Break.HOLD, Break.REFUSE):
            with self.scene.links[fault.target].severed(Cut(fault.how.value)):
                self.stop.wait(fault.lasts_s)
            return str(fault)
        if fault.how in _LIMITS:
            return self._limit(fault)
        pid = self._signal(fault.target, signal.SIGKILL if fault.how is Break.KILL else signal.SIGSTOP)
        if pid is None:
            return f"miss {fault.target} (it was being started)"
        if fault.how is Break.FREEZE:
            time.sleep(fault.lasts_s)
            if self.scene.cluster.pids.get(fault.target) == pid:
                self._signal(fault.target, signal.SIGCONT)
        return str(fault)

    def _limit(self, fault: Fault) -> str:
        """Take something away from a process for a while, unless it is just being started again."""
        pid = self.scene.cluster.pids.get(fault.target)
        if pid is None:
            return f"miss {fault.target} (it was being started)"
        kind = _LIMITS[fault.how]
        with suppress(ProcessLookupError):
            before = resource.prlimit(pid, kind)
            resource.prlimit(pid, kind, (_now(pid) if fault.how is Break.MEMORY else 0, before[1]))
            self.stop.wait(fault.lasts_s)
            if self.scene.cluster.pids.get(fault.target) == pid:
                resource.prlimit(pid, kind, before)
        return str(fault)

    def _signal(self, name: str, number: signal.Signals) -> int | None:
        """The process that got it; None when the child is just being started again."""
        pid = self.scene.cluster.pids.get(name)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid


def _now(pid: int) -> int:
    """Return the bytes of address space that a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def await_everything(scene: Scene) -> None:
    """Wait until every process serves and the master hears all sites."""
    for status in scene.cluster.statuses:
        scene.cluster.await_ready(status.name)

    def alive() -> bool:
        with suppress(selat.SelatError), selat.connect(scene.cluster.address) as client:
            return all(site.state is selat.SiteState.ALIVE for site in client.sites())
        return False

    wait_until(alive, RECOVERY_TIMEOUT_S)
