"""The state of a process and its data directory, as `selat doctor` shows it."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("grpcio", "protobuf", "pyarrow", "pyspark")
"""Distributions whose versions are reported where they are installed."""

_BLOCK = bytes(4096)


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of a directory."""

    path: str
    free_bytes: int = 0
    total_bytes: int = 0
    sync_s: float = 0.0
    """Seconds that writing a block to the disk took."""
    reason: str = ""
    """The reason why nothing can be written; empty when something can."""


@dataclass(frozen=True, slots=True)
class Description:
    """One process; the fields are those of `selat.v1.Member`."""

    version: str
    """The version of Selat."""
    python: str
    packages: Mapping[str, str] = field(default_factory=dict)
    java: str = ""
    """The version of the process's JVM, where it has one."""
    now_us: int = 0
    """The process's clock, read after everything else was measured."""
    disk: Disk | None = None
    took_s: float = 0.0
    """Seconds that the measurements took."""


def describe(directory: Path | None = None, *, java: str = "") -> Description:
    """This process and its data directory; blocks as long as the disk takes to sync a block."""
    began = time.monotonic()
    disk = measured_disk(directory) if directory is not None else None
    return Description(
        version=package_version("selat"),
        python=platform.python_version(),
        packages={name: found for name in PACKAGES if (found := package_version(name))},
        java=java,
        now_us=time.time_ns() // 1000,
        disk=disk,
        took_s=time.monotonic() - began,
    )


def package_version(name: str) -> str:
    """The version of an installed distribution; empty when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def measured_disk(directory: Path) -> Disk:
    """The disk of a directory: what is free, and how long a synced write takes. Leaves nothing there."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError as error:
        return Disk(str(directory), reason=_said(error))
    disk = Disk(str(directory), usage.free, usage.total)
    try:
        began = time.monotonic()
        descriptor, name = tempfile.mkstemp(prefix=".doctor-", dir=directory)
        try:
            os.write(descriptor, _BLOCK)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(name)
    except OSError as error:
        return Disk(disk.path, disk.free_bytes, disk.total_bytes, reason=_said(error))
    return Disk(disk.path, disk.free_bytes, disk.total_bytes, sync_s=time.monotonic() - began)


def _said(error: OSError) -> str:
    return error.strerror or type(error).__name__
