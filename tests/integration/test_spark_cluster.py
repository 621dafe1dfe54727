"""Any Spark master: the engine on `local-cluster[2,1,1024]`, whose executors do not see the agent's files.

Its connections are encrypted, as with `--tls-dir`; without is part of `make long`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from site_agent.engine.jvm.java import find_java_home

pytestmark = pytest.mark.spark

CHECKS = Path(__file__).with_name("cluster_checks.py")
TIMEOUT_S = 840

# Spark starts executors with the `java` of its JAVA_HOME: ours gives them a file system of their own.
_JAVA = """#!/bin/sh
case " $* " in
  *" org.apache.spark.executor.CoarseGrainedExecutorBackend "*)
    exec {unshare} sh -c 'mount -t tmpfs none "$0" && exec "$@"' {hidden} {java} "$@" ;;
esac
exec {java} "$@"
"""


def own_mounts(directory: Path) -> tuple[str, ...] | None:
    """A command that may mount over the directory, for itself alone; None where that is not allowed."""
    for command in (("unshare", "-m"), ("unshare", "-rm")):
        tried = [*command, "mount", "-t", "tmpfs", "none", str(directory)]
        if shutil.which("unshare") and subprocess.run(tried, capture_output=True, check=False).returncode == 0:
            return command
    return None


def hiding(hidden: Path, home: Path) -> dict[str, str]:
    """Environment in which executors see an empty directory in place of `hidden`; empty where that cannot be."""
    command = own_mounts(hidden)
    if command is None:
        return {}
    java = find_java_home(os.environ, home / "real") / "bin" / "java"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    words = {"unshare": shlex.join(command), "hidden": shlex.quote(str(hidden)), "java": shlex.quote(str(java))}
    wrapper.write_text(_JAVA.format(**words))
    wrapper.chmod(0o755)
    return {"JAVA_HOME": str(home), "SELAT_IS_HIDDEN": "1"}


@pytest.mark.timeout(TIMEOUT_S + 60)
@pytest.mark.parametrize("encrypted", [True, pytest.param(False, marks=pytest.mark.long)])
def test_executors_fetch_what_they_cannot_see(tmp_path: Path, encrypted: bool) -> None:
    hidden, work = tmp_path / "agent", Path(pyspark.__file__).parent / "work"
    hidden.mkdir()
    before = set(work.glob("app-*"))
    environment = {**os.environ, "SELAT_HIDDEN": str(hidden), **hiding(hidden, tmp_path / "java")}
    if encrypted:
        environment["SELAT_ENCRYPTED"] = "1"
    arguments = [
        "-q",
        "--timeout",
        str(TIMEOUT_S),
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(tmp_path / "base"),
        str(CHECKS),
    ]
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            env=environment,
            cwd=CHECKS.parents[2],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    finally:
        # A local cluster's workers keep the logs of their executors in Spark's own directory.
        for directory in set(work.glob("app-*")) - before:
            shutil.rmtree(directory, ignore_errors=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
