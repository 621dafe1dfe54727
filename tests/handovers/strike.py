"""The faults in the middle of a handover."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from machine.faults import FAULT_VARIABLE, MARKS_VARIABLE
from tests.e2e.faults import Scene, kill
from tests.handovers.plan import Plan, Role
from tests.soak import plan as soak
from tests.soak.faults import Faults


class Strike:
    """The fault of a plan, at the processes and links of those who have its roles."""

    def __init__(self, scene: Scene, plan: Plan, sites: Mapping[Role, str]) -> None:
        self._scene = scene
        self._plan = plan
        self._sites = sites
        self._marks = Path()
        self._faults = Faults(scene, tuple(self._strikes()))

    def arm(self) -> None:
        """Start a process anew that is to die at a point, once: even if that is before it serves."""
        if self._plan.fault.point:
            self._marks = Path(tempfile.mkdtemp(prefix="selat-marks-"))
            os.environ[FAULT_VARIABLE] = f"{self._plan.fault.point}:{self._plan.passage}"
            os.environ[MARKS_VARIABLE] = str(self._marks)
            try:
                kill(self._scene.cluster, self._process(self._plan.fault.roles[0]))
            finally:
                del os.environ[FAULT_VARIABLE], os.environ[MARKS_VARIABLE]

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Strike while the block waits; at its end, the fault is over."""
        thread = threading.Thread(target=self._faults.run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def disarm(self) -> bool:
        """Have no process with a fault; returns whether it has struck."""
        if not self._plan.fault.point:
            return bool(self._faults.told)
        struck = any(self._marks.iterdir())
        if not struck:
            kill(self._scene.cluster, self._process(self._plan.fault.roles[0]))
        shutil.rmtree(self._marks)
        return struck

    def _process(self, role: Role) -> str:
        return "master" if role is Role.MASTER else f"agent-{self._sites[role]}"

    def _strikes(self) -> Iterator[soak.Fault]:
        """Yield faults of soak runs, those of all roles at once."""
        fault, after_s = self._plan.fault, self._plan.after_s
        for role in fault.roles if fault.how is not None else ():
            assert fault.how is not None
            of_link = fault.how in (soak.Break.HOLD, soak.Break.REFUSE)
            target = self._sites[role] if of_link else self._process(role)
            yield soak.Fault(fault.how, target, after_s, self._plan.lasts_s)
            after_s = 0.0
