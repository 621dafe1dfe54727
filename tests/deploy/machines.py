"""Machines in clean roots and namespaces, the network between them, the firewalls that the Terraform module plans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tests.deploy.tools import TOOLS, run

BASE = TOOLS / "root"
"""A minimal Debian 12 with Python: made by scripts/setup_deploy."""
BUNDLES = "192.0.2.1"
"""The address at which the bundle is, in place of a bucket."""
BUNDLES_PORT = 8000
HERE = Path(__file__).parent
START_S = 300.0

_REACH = """
import asyncio, json, sys
async def reaches(address, port):
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), 2)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
async def main():
    asked = [tuple(a) for a in json.loads(sys.argv[1])]
    print(json.dumps(await asyncio.gather(*(reaches(*a) for a in asked))))
asyncio.run(main())
"""


class Network:
    """Subnets around one router, a namespace for each end; gone with its block."""

    def __init__(self) -> None:
        self._prefix = f"sdt{os.getpid()}"
        self._spaces: list[str] = []
        self._servers: list[subprocess.Popen[bytes]] = []
        self.router = self._space("cloud")
        self._ip(self.router, "addr", "add", f"{BUNDLES}/32", "dev", "lo")
        run("ip", "netns", "exec", self.router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")

    def end(self, name: str, address: str) -> str:
        """A namespace with this address in a /24, behind the router."""
        space = self._space(name)
        port = f"p{len(self._spaces)}"
        self._ip(self.router, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
        gateway = address.rpartition(".")[0] + ".1"
        self._ip(self.router, "addr", "add", f"{gateway}/24", "dev", port)
        self._ip(self.router, "link", "set", port, "up")
        self._ip(space, "addr", "add", f"{address}/24", "dev", "eth0")
        self._ip(space, "link", "set", "eth0", "up")
        self._ip(space, "route", "add", "default", "via", gateway)
        return space

    def serve(self, directory: Path) -> str:
        """The URL of a directory's files, for all ends."""
        command = [sys.executable, "-m", "http.server", str(BUNDLES_PORT), "--directory", str(directory)]
        self._servers.append(
            subprocess.Popen(inside(self.router, *command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        return f"http://{BUNDLES}:{BUNDLES_PORT}"

    def _space(self, name: str) -> str:
        space = f"{self._prefix}-{name}"
        run("ip", "netns", "add", space)
        self._spaces.append(space)
        self._ip(space, "link", "set", "lo", "up")
        return space

    @staticmethod
    def _ip(space: str, *words: str) -> None:
        run("ip", "-n", space, *words)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.kill()
            server.wait()
        for space in self._spaces:
            run("ip", "netns", "del", space, check=False)


def inside(space: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", space, *command]


def reached(space: str, targets: Iterable[tuple[str, int]]) -> list[bool]:
    """For each TCP address whether it can be connected to from a namespace."""
    said = run(*inside(space, sys.executable, "-c", _REACH, json.dumps(list(targets))))
    return [bool(answer) for answer in json.loads(said)]


def listening(space: str) -> dict[int, set[str]]:
    """The TCP ports of a namespace, with the addresses at which somebody listens."""
    found: dict[int, set[str]] = {}
    for line in run(*inside(space, "ss", "-H", "-l", "-t", "-n")).splitlines():
        address, _, port = line.split()[3].rpartition(":")
        found.setdefault(int(port), set()).add(address.removeprefix("[::ffff:").strip("[]"))
    return found


def firewall(space: str, rules: Mapping[str, Mapping[str, Any]]) -> None:
    """What a security group with these rules does: nothing passes but what a rule names, and what answers it."""
    commands: list[tuple[str, ...]] = [("-P", "INPUT", "DROP"), ("-P", "OUTPUT", "DROP"), ("-P", "FORWARD", "DROP")]
    for chain, way, device in (("INPUT", "in", "-i"), ("OUTPUT", "out", "-o")):
        commands += [("-A", chain, device, "lo", "-j", "ACCEPT")]
        commands += [("-A", chain, "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT")]
        for rule in rules[way].values():
            peer = "-s" if way == "in" else "-d"
            ports = f"{rule['first']}:{rule['last']}"
            commands += [("-A", chain, peer, rule["cidr"], "-p", rule["protocol"], "--dport", ports, "-j", "ACCEPT")]
    commands += [("-A", "OUTPUT", "-d", BUNDLES, "-p", "tcp", "--dport", str(BUNDLES_PORT), "-j", "ACCEPT")]
    for command in commands:
        run(*inside(space, "iptables", "-w", *command))


@dataclass
class Machine:
    """A machine that was started; killed with its block."""

    name: str
    space: str
    scratch: Path
    script: str
    """The start-up script."""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        self.scratch.mkdir(parents=True)
        first = self.scratch.with_suffix(".sh")
        first.write_text(self.script)
        words = [str(HERE / "machine.sh"), str(BASE), str(self.scratch), str(HERE / "systemctl"), str(first)]
        private = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--propagation", "private"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                inside(self.space, *private, "sh", *words), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        for child in psutil.Process(self._process.pid).children():
            child.kill()
        self._process.kill()
        self._process.wait()

    @property
    def _log(self) -> Path:
        return self.scratch.with_suffix(".log")

    def await_start(self) -> float:
        """Seconds until the start-up script had ended well."""
        begun = time.monotonic()
        while "start-up ended: " not in (said := self._log.read_text()):
            assert time.monotonic() - begun < START_S, said
            time.sleep(0.2)
        assert "start-up ended: 0" in said, said
        return time.monotonic() - begun

    def __call__(self, *command: str, check: bool = True) -> str:
        """What a command prints in the machine."""
        assert self._process is not None
        (first,) = psutil.Process(self._process.pid).children()
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        words = ["nsenter", "-t", str(first.pid), "--mount", "--pid", "--net"]
        return run(*words, "env", "-i", path, "chroot", str(self.scratch / "root"), *command, check=check)
