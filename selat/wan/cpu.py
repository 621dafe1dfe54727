"""Limits a site's processes to the CPUs of its slots, by a control group with a quota."""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from selat.wan.errors import WanError

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1_000
_PATIENCE_S, _POLL_S = 10.0, 0.05


@dataclass(frozen=True, slots=True)
class CpuGroups:
    """The groups of one emulation. `root` is where the control groups' file system is mounted."""

    name: str
    root: Path = _ROOT

    @property
    def version(self) -> int | None:
        """The version of control groups that can limit CPUs here, 2 or 1; None: neither."""
        with suppress(OSError):
            if "cpu" in (self.root / "cgroup.controllers").read_text().split():
                return 2
        return 1 if (self.root / "cpu" / "cpu.cfs_quota_us").exists() else None

    def directory(self, site: str) -> Path:
        parent = self.root / "cpu" if self.version == 1 else self.root
        return parent / f"selat-{self.name}.{site}"

    def make(self, site: str, cpus: float) -> None:
        """Make the group. Raises WanError when there is no CPU controller."""
        version = self.version
        if version is None:
            raise WanError.of(
                "this machine has no CPU controller for control groups",
                hint="leave --cpus-per-slot out; sites then share the CPUs",
            )
        quota_us = max(_LEAST_QUOTA_US, int(cpus * _PERIOD_US))
        directory = self.directory(site)
        try:
            if version == 2:
                self._let_groups_hold_cpus()
            directory.mkdir(exist_ok=True)
            if version == 2:
                (directory / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
            else:
                (directory / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (directory / "cpu.cfs_quota_us").write_text(str(quota_us))
        except OSError as error:
            raise WanError.of(
                f"cannot hold {site} to {cpus:g} CPUs: {error.strerror}", hint="leave --cpus-per-slot out"
            ) from None

    def _let_groups_hold_cpus(self) -> None:
        control = self.root / "cgroup.subtree_control"
        if "cpu" not in control.read_text().split():
            control.write_text("+cpu")

    def remove_all(self) -> None:
        """Remove groups whose processes have ended, or are about to end."""
        deadline_s = time.monotonic() + _PATIENCE_S
        for parent in (self.root, self.root / "cpu"):
            for directory in parent.glob(f"selat-{self.name}.*"):
                # A killed process stays in its group until the kernel has released its memory.
                while not _removed(directory) and time.monotonic() < deadline_s:
                    time.sleep(_POLL_S)


def _removed(directory: Path) -> bool:
    with suppress(FileNotFoundError):
        try:
            directory.rmdir()
        except OSError as error:
            return error.errno != errno.EBUSY
    return True
