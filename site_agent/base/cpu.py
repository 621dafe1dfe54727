"""How long threads wait for a CPU, and how much of the CPU is used, by the kernel's accounting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""Nanoseconds on a CPU, nanoseconds ready to run and waiting for one, number of turns."""
_CGROUP = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")


def cpu_wait_s() -> float:
    """Seconds that this thread has waited for a CPU since it began; 0 where the kernel does not count them."""
    try:
        return int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


@dataclass(frozen=True, slots=True)
class Quota:
    """How much CPU a control group may use (cgroup v2)."""

    directory: Path
    cpus: float

    @classmethod
    def found(cls, group: Path = _CGROUP, groups: Path = _CGROUPS) -> Quota | None:
        """The narrowest quota of this process; None: it may use the whole machine."""
        try:
            line = next(line for line in group.read_text().splitlines() if line.startswith("0::"))
        except (OSError, StopIteration):
            return None
        own = groups / line.removeprefix("0::").lstrip("/")
        quotas = [quota for at in (own, *own.parents) if at.is_relative_to(groups) and (quota := cls._at(at))]
        return min(quotas, key=lambda quota: quota.cpus, default=None)

    @classmethod
    def _at(cls, directory: Path) -> Quota | None:
        try:
            most, period = (directory / "cpu.max").read_text().split()
            return cls(directory, int(most) / int(period))
        except (OSError, ValueError):
            return None

    def used_s(self) -> float:
        """CPU seconds that the group has used; 0 when it cannot be read."""
        try:
            words = (self.directory / "cpu.stat").read_text().split()
            return int(words[words.index("usage_usec") + 1]) / 1e6
        except (OSError, ValueError, IndexError):
            return 0.0


class CpuUse:
    """Measures the share of the CPU that is used, by this process or others: of the machine's, and of the quota's."""

    def __init__(self, quota: Quota | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._quota = quota
        self._clock = clock
        self._last = self._now()

    @property
    def cpus(self) -> float:
        """How many there are for this process."""
        of_machine = float(psutil.cpu_count() or 1)
        return min(of_machine, self._quota.cpus) if self._quota is not None else of_machine

    def __call__(self) -> float:
        """The share since the last call, 0 to 1; does not block."""
        (busy, total, used, at), self._last = self._last, self._now()
        busy, total, used, passed = (now - then for now, then in zip(self._last, (busy, total, used, at), strict=True))
        of_machine = busy / total if total > 0 else 0.0
        of_quota = used / (passed * self._quota.cpus) if self._quota is not None and passed > 0 else 0.0
        return min(1.0, max(0.0, of_machine, of_quota))

    def _now(self) -> tuple[float, float, float, float]:
        """Seconds: of CPUs that were busy, of all CPUs, used of the quota, on the clock."""
        times = psutil.cpu_times()
        total = times.user + times.nice + times.system + times.idle + times.iowait + times.irq + times.softirq
        used_s = self._quota.used_s() if self._quota is not None else 0.0
        return total - times.idle - times.iowait, total, used_s, self._clock()
