"""The faults in the middle of a handover."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from machine.faults import FAULT_VARIABLE, MARKS_VARIABLE
from tests.e2e.faults import Scene, kill
from tests.e2e.proxy import Cut
from tests.handovers.plan import Fault, How, Plan, Role

_CUTS = {How.HOLD: Cut.HOLD, How.REFUSE: Cut.REFUSE}


class Strike:
    """One fault. Names are those of processes."""

    def __init__(self, scene: Scene, plan: Plan, sites: Mapping[Role, str]) -> None:
        self._cluster = scene.cluster
        self._links = scene.links
        self._plan = plan
        self._sites = sites
        self._marks = Path()

    @property
    def _fault(self) -> Fault:
        return self._plan.fault

    def _process(self, role: Role) -> str:
        return "master" if role is Role.MASTER else f"agent-{self._sites[role]}"

    def arm(self) -> None:
        """Start a process anew that is to die at a point, once: even if that is before it serves."""
        if self._fault.how is How.POINT:
            name, self._marks = self._process(self._fault.roles[0]), Path(tempfile.mkdtemp(prefix="selat-marks-"))
            os.environ[FAULT_VARIABLE] = f"{self._fault.point}:{self._plan.passage}"
            os.environ[MARKS_VARIABLE] = str(self._marks)
            try:
                kill(self._cluster, name)
            finally:
                del os.environ[FAULT_VARIABLE], os.environ[MARKS_VARIABLE]

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Strike while the block waits; at its end, the fault is over."""
        thread = threading.Thread(target=self._strike, daemon=True)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def disarm(self) -> bool:
        """Have no process with a fault; returns whether it has struck."""
        if self._fault.how is not How.POINT:
            return self._fault.how is not How.NOTHING
        struck = any(self._marks.iterdir())
        if not struck:
            kill(self._cluster, self._process(self._fault.roles[0]))
        shutil.rmtree(self._marks)
        return struck

    def _strike(self) -> None:
        time.sleep(self._plan.after_s)
        names = dict.fromkeys(map(self._process, self._fault.roles))
        if self._fault.how is How.KILL:
            kill(self._cluster, *names)
        elif self._fault.how is How.FREEZE:
            pid = self._cluster.pids[next(iter(names))]
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self._plan.lasts_s)
            os.kill(pid, signal.SIGCONT)
        elif self._fault.how in _CUTS:
            with self._links[self._sites[self._fault.roles[0]]].severed(_CUTS[self._fault.how]):
                time.sleep(self._plan.lasts_s)
