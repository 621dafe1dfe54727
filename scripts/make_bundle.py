"""Writes dist/selat-bundle.tar.gz: Selat, all packages that its members need, Java, and the scripts that install them.

Machines and images are made from it without any other source: its packages are those that `make setup` installed by the
lock file. It is for this machine's Python version and kind. The same input gives the same bytes, so that machines are
not replaced for a bundle that only is newer.

    python scripts/make_bundle.py [--to FILE] [--without-java]
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
NAME = "selat-bundle"
EXTRAS = ("master", "agent")
SCRIPTS = ("start", "selat-member")
UNITS = ("selat-master.service", "selat-agent.service", "selat-certificates.service", "selat-certificates.timer")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "dist" / f"{NAME}.tar.gz", metavar="FILE")
    parser.add_argument("--without-java", action="store_true", help="machines have a Java of their own")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="selat-bundle-") as scratch:
        tree = Path(scratch) / NAME
        packages = tree / "site-packages"
        packages.mkdir(parents=True)
        for needed in closure("selat", EXTRAS):
            copy_installed(needed, packages)
        unpack_selat(packages, Path(scratch))
        if not arguments.without_java:
            pip("install", "--no-deps", "--require-hashes", "--target", packages, "-r", ROOT / "requirements-java.lock")
        add_scripts(tree)
        arguments.to.parent.mkdir(parents=True, exist_ok=True)
        pack(tree, arguments.to)
    print(
        f"{arguments.to}: {arguments.to.stat().st_size / 1e6:.0f} MB, for Python {python_version()} on {sys.platform}"
    )
    return 0


def closure(name: str, extras: tuple[str, ...]) -> list[Distribution]:
    """The installed distributions that one needs with these extras, itself left out."""
    found: dict[str, Distribution] = {}
    asked: set[tuple[str, tuple[str, ...]]] = set()
    todo = [(name, extras)]
    while todo:
        project, of = todo.pop()
        if (project, of) in asked:
            continue
        asked.add((project, of))
        found[project] = distribution(project)
        for text in found[project].requires or ():
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *of)):
                todo.append((need.name.lower().replace("_", "-"), tuple(sorted(need.extras))))
    return [found[project] for project in sorted(found) if project != name]


def copy_installed(package: Distribution, to: Path) -> None:
    """The files of an installed package, without its console scripts and compiled modules."""
    for file in package.files or ():
        if file.parts[0] == ".." or "__pycache__" in file.parts:
            continue
        target = to / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(package.locate_file(file)), target)


def unpack_selat(to: Path, scratch: Path) -> None:
    """Our own packages, as a wheel has them."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, ROOT)
    (wheel,) = scratch.glob("selat-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(to)


def add_scripts(tree: Path) -> None:
    for name in SCRIPTS:
        shutil.copy(ROOT / "deploy" / "member" / name, tree / name)
    (tree / "units").mkdir()
    for name in UNITS:
        shutil.copy(ROOT / "deploy" / "systemd" / name, tree / "units" / name)
    (tree / "python").write_text(f"{python_version()}\n")


def pack(tree: Path, to: Path) -> None:
    """One file, whose bytes depend on names and contents alone."""
    new = to.with_name(to.name + ".new")
    with (
        new.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for path in [tree, *sorted(tree.rglob("*"))]:
            if "__pycache__" not in path.parts:
                archive.add(path, str(path.relative_to(tree.parent)), recursive=False, filter=_plain)
    new.replace(to)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def pip(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *map(str, arguments)], check=True)


if __name__ == "__main__":
    sys.exit(main())
