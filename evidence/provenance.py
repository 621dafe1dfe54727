"""The origin of a section of a page of results: code, machine and command."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PAGES = "docs/results"
"""Not examined for changes: a run that writes its page does not make its own tree unclean."""
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Code:
    """A commit as `git describe` names it, and whether the tree was equal to it."""

    commit: str
    clean: bool

    def __str__(self) -> str:
        return f"{self.commit}, {'clean' if self.clean else 'changed'}"


def code_of(checkout: Path = CHECKOUT) -> Code:
    """The code in a checkout as it is now; outside git the commit is unknown."""
    try:
        commit = _git(checkout, "describe", "--always", "--tags", "--abbrev=12")
        changes = _git(checkout, "status", "--porcelain", "--", ".", f":(exclude){PAGES}")
    except (OSError, subprocess.CalledProcessError):
        return Code(UNKNOWN, clean=False)
    return Code(commit, clean=not changes)


@cache
def code_at_start() -> Code:
    """The code that this process runs. The first call must come early: the checkout may move on later."""
    return code_of()


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def facts(code: Code, command: str, packages: Mapping[str, str]) -> str:
    """Commit, date, machine, versions and command of a run that ends now.

    `packages` has the distributions whose versions are shown, by the names to show.
    """
    versions = [f"Python {platform.python_version()}", *(f"{shown} {version(p)}" for shown, p in packages.items())]
    return "\n".join(
        [
            f"- Commit: {code.commit}, {'tree clean' if code.clean else '**tree changed**'}",
            f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            f"- Machine: {platform.system()} {platform.machine()}, {os.cpu_count()} cores, load average "
            f"{os.getloadavg()[0]:.1f} at the end",
            f"- Versions: {', '.join(versions)}",
            f"- Command: `{command}`",
        ]
    )
