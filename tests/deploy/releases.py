"""Installations of Selat beside one another: of this tree, and of a version before it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.tools import ROOT, run

GIVEN = os.environ.get("SELAT_VERSION_BEFORE", "")
FIRST = "d1c2725197a0b258723bfc1fec6505ba750e1a27"
"""The first commit whose tasks can be taken over: ids of tasks had sites before, as decision 0038 has it."""
BEFORE_VERSION = "0.0.9"
"""Given to that commit: all commits so far have one version."""

_WHERE = """
import importlib.metadata, master, site_agent, wire
print(importlib.metadata.version("selat"), master.__file__, site_agent.__file__, wire.__file__)
"""


@dataclass(frozen=True, slots=True)
class Release:
    """The packages of a version in a directory of their own; what they need of others is this environment's."""

    version: str
    origin: str
    directory: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """For processes that are to run this version; they have to be started in the directory."""
        return {"PYTHONPATH": str(self.directory)}


def this_tree(scratch: Path) -> Release:
    """This tree as it is, uncommitted changes included."""
    return _installed(ROOT, scratch / "now", "this tree")


def before(scratch: Path) -> Release:
    """The commit that was given, else FIRST, else, in a history without that, the newest; with a version of its own."""
    looked = subprocess.run(
        ["git", "cat-file", "-e", f"{FIRST}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    )
    named = GIVEN or (FIRST if looked.returncode == 0 else "HEAD")
    commit = run("git", "rev-parse", "--verify", f"{named}^{{commit}}", cwd=ROOT).strip()
    source = scratch / "source"
    archive = scratch / "source.tar"
    run("git", "archive", "--output", str(archive), commit, cwd=ROOT)
    with tarfile.open(archive) as packed:
        packed.extractall(source, filter="data")
    project = source / "pyproject.toml"
    project.write_text(re.sub(r'(?m)^version = ".*"$', f'version = "{BEFORE_VERSION}"', project.read_text(), count=1))
    made = _installed(source, scratch / "before", f"commit {commit[:12]}")
    assert made.version == BEFORE_VERSION
    return made


def _installed(source: Path, directory: Path, origin: str) -> Release:
    """As a wheel has it; checked to be what runs with its environment."""
    wheels = directory.with_suffix(".wheels")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(source))
    (wheel,) = wheels.glob("selat-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    said = run(sys.executable, "-c", _WHERE, cwd=directory, env={"PYTHONPATH": str(directory)})
    version, *files = said.split()
    assert all(Path(file).is_relative_to(directory) for file in files), said
    return Release(version, origin, directory)
