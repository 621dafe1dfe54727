"""Programs that the tests use, and what is missing of them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.needs import Lack, Need

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venv" / "deploy"
"""Made by scripts/setup_deploy from requirements-deploy.lock."""
LONGEST_S = 600


def tool(name: str) -> str:
    """The path of a program of the tools, else its name."""
    path = TOOLS / "bin" / name
    return str(path) if path.exists() else name


def run(*command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, check: bool = True) -> str:
    """What a program prints on both streams; with `check`, it has to succeed."""
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    assert not check or done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-6000:]}"
    return done.stdout


def lack_of(*programs: str) -> Lack | None:
    """Programs that are not here."""
    absent = [name for name in programs if not (TOOLS / "bin" / name).exists() and shutil.which(name) is None]
    return Lack(Need.MACHINE, ", ".join(absent)) if absent else None


@cache
def providers() -> Path | None:
    """The directory with Terraform's providers: SELAT_TERRAFORM_PROVIDERS, or where machines keep them."""
    if given := os.environ.get("SELAT_TERRAFORM_PROVIDERS"):
        return Path(given)
    kept = [Path.home() / ".terraform.d" / "plugins", Path("/usr/share/terraform/plugins")]
    kept += [Path("/usr/local/share/terraform/plugins"), *sorted(Path("/opt").glob("*"))]
    return next((path for path in kept if (path / "registry.terraform.io" / "hashicorp" / "aws").is_dir()), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


EMULATOR = Path(__file__).with_name("emulator.py")


@contextmanager
def emulated_cloud(log: Path) -> Iterator[str]:
    """The URL of an AWS that has nothing yet; it is in memory, and gone with the block."""
    port = free_port()
    with log.open("wb") as out:
        server = subprocess.Popen(
            [tool("python"), str(EMULATOR), "-H", "127.0.0.1", "-p", str(port)], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + 60
        while not _answers(port):
            assert server.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
