"""An emulated WAN for a test, what `ping` and `iperf3` see in it, and what it left behind."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from planner.values.topology import Link, Site, Topology
from selat.local.identity import ProcessIdentity
from selat.wan.cpu import CpuGroups
from selat.wan.emulation import Emulations, Wish
from selat.wan.layout import WAN_DEVICE, belongs_to
from selat.wan.links import Pair
from selat.wan.probe import Capability, capabilities
from selat.wan.record import RUN, Record
from selat.wan.system import SEARCH_PATH
from tests.needs import Lack, Need, unless

ROOT = Path(__file__).parents[2]
PORT = 5201
TOOLS = ("iperf3", "ping", "ip", "tc", "ethtool")
X86 = ("x86_64", "i686")
"""The only machines for which there is a package of User-Mode Linux."""
ATTEMPTS = 8
T = TypeVar("T")
_SENDER = """
import socket, sys, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.sendto(b"", (sys.argv[1], 9))
print("sending", flush=True)
while True:
    sender.sendto(b"", (sys.argv[1], 9))
    time.sleep(0.0001)
"""
_TIME_MS = re.compile(r"time=([0-9.]+) ms")


@cache
def lack() -> Lack | None:
    """Why tests with namespaces cannot run here; None: they can."""
    if os.geteuid() != 0:
        return Lack(Need.ROOT)
    if absent := _absent(*TOOLS):
        return Lack(Need.PACKAGES, absent)
    found = found_backends()
    return None if any(c.works for c in found) else Lack(Need.MACHINE, found[0].reason)


def lack_of(backend: str) -> Lack | None:
    """Why one backend cannot run here; None: it can."""
    (found,) = (c for c in found_backends() if c.backend == backend)
    if found.works:
        return None
    absent = _absent("linux.uml", "busybox") if backend == "uml-router" and platform.machine() in X86 else ""
    return Lack(Need.PACKAGES, absent) if absent else Lack(Need.MACHINE, f"{backend}: {found.reason}")


def _absent(*tools: str) -> str:
    """The names of tools that are not installed."""
    return ", ".join(tool for tool in tools if shutil.which(tool, path=SEARCH_PATH) is None)


@cache
def found_backends() -> tuple[Capability, ...]:
    """What this machine can do; it is tried once."""
    return capabilities()


MARKS = [pytest.mark.wan, unless(lack())]
"""The marks of every test with namespaces."""


def topology(links: dict[Pair, tuple[float, float]]) -> Topology:
    """From (Mbit/s, milliseconds) by ordered pair; every pair of the sites must be there."""
    names = tuple(dict.fromkeys(site for pair in links for site in pair))
    made = {(a, b): Link(a, b, mbit * 125e3, timedelta(milliseconds=ms)) for (a, b), (mbit, ms) in links.items()}
    return Topology({name: Site(name) for name in names}, made, names[0])


@dataclass(frozen=True, slots=True)
class Lab:
    """A WAN that is up."""

    emulations: Emulations
    record: Record

    @property
    def name(self) -> str:
        return self.record.layout.name

    def inside(self, site: str, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.record.layout.namespace(site), *command]

    def round_trips_ms(self, pairs: Sequence[Pair], count: int = 5) -> dict[Pair, float | None]:
        """The least of some pings, of all pairs at once; None: not one came back."""
        pings = {
            (a, b): subprocess.Popen(
                self.inside(a, "ping", "-c", str(count), "-i", "0.2", "-W", "1", self.record.layout.address(b)),
                stdout=subprocess.PIPE,
                text=True,
            )
            for a, b in pairs
        }
        times = {pair: [float(ms) for ms in _TIME_MS.findall(ping.communicate()[0])] for pair, ping in pings.items()}
        return {pair: min(found, default=None) for pair, found in times.items()}

    def reaches(self, source: str, target: str) -> bool:
        """Whether one of two pings comes back."""
        return self.round_trips_ms([(source, target)], count=2)[source, target] is not None

    def lost_share(self, source: str, target: str, count: int) -> float:
        """Of pings in quick succession."""
        address = self.record.layout.address(target)
        command = self.inside(source, "ping", "-c", str(count), "-i", "0.005", "-W", "1", "-q", address)
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        received = int(said.partition("transmitted, ")[2].split()[0])
        return 1 - received / count

    def goodput_mbit_per_s(self, pairs: Sequence[Pair], seconds: int) -> dict[Pair, float]:
        """What all pairs carry at once: the median tenth of a second of the second half.

        So neither slow start counts nor the moments in which the machine did other work.
        """
        with _servers(self, [b for _, b in pairs]) as ports:
            clients = [
                subprocess.Popen(self._client(pair, port, seconds), stdout=subprocess.PIPE, text=True)
                for pair, port in zip(pairs, ports, strict=True)
            ]
            outputs = [client.communicate(timeout=seconds + 60)[0] for client in clients]
        return {pair: _steady_mbit_per_s(json.loads(text)) for pair, text in zip(pairs, outputs, strict=True)}

    @contextmanager
    def busy(self, pair: Pair) -> Iterator[None]:
        """As much as the link carries, as long as the block runs; it begins when slow start is over."""
        with _servers(self, [pair[1]]) as (port,):
            client = subprocess.Popen(self._client(pair, port, seconds=60), stdout=subprocess.DEVNULL)
            try:
                time.sleep(1)
                yield
            finally:
                client.terminate()
                client.wait(10)

    @contextmanager
    def sending(self, source: str, target: str) -> Iterator[None]:
        """Some thousand datagrams a second, as long as the block runs."""
        command = self.inside(source, sys.executable, "-c", _SENDER, self.record.layout.address(target))
        sender = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert sender.stdout is not None
            assert sender.stdout.readline() == "sending\n"
            yield
        finally:
            sender.terminate()
            sender.communicate(timeout=10)

    def datagrams_at(self, site: str) -> int:
        """How many have come to a site so far."""
        command = self.inside(site, "cat", "/proc/net/snmp")
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names, values = (line.split()[1:] for line in said.splitlines() if line.startswith("Udp:"))
        counts = dict(zip(names, map(int, values), strict=True))
        return counts["InDatagrams"] + counts["NoPorts"]

    def carried_mbit_per_s(self, site: str, seconds: float) -> float:
        """What arrives at a site, bytes of the wire, counted from now on."""
        before_bytes, began_s = self._received_bytes(site), time.monotonic()
        time.sleep(seconds)
        after_bytes, ended_s = self._received_bytes(site), time.monotonic()
        return (after_bytes - before_bytes) * 8 / 1e6 / (ended_s - began_s)

    def processes_between(self) -> list[psutil.Process]:
        """Those of the backend, between the sites."""
        listed = subprocess.run(
            ["ip", "netns", "pids", self.record.layout.hub], capture_output=True, text=True, check=True
        ).stdout
        return [psutil.Process(int(pid)) for pid in listed.split()]

    def iperf3(self, site: str, *options: str) -> list[str]:
        """Measures the link and not how long it waits for the machine's other work: where it may, it goes first."""
        return ["nice", "-n", "-5", *self.inside(site, "iperf3", *options)]

    def _client(self, pair: Pair, port: int, seconds: int) -> list[str]:
        source, address = pair[0], self.record.layout.address(pair[1])
        # Cubic keeps packets queueing before a link: its rate does not hang on when the sender gets the processor.
        options = ("-J", "-t", str(seconds), "-i", "0.1", "-C", "cubic", "--get-server-output")
        return self.iperf3(source, "-c", address, "-p", str(port), *options)

    def _received_bytes(self, site: str) -> int:
        command = ["ip", "-n", self.record.layout.namespace(site), "-json", "-stats", "link", "show", WAN_DEVICE]
        (device,) = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return int(device["stats64"]["rx"]["bytes"])


@contextmanager
def lab(
    wanted: Topology, backend: str | None, *, name: str = "test", cpus_per_slot: float | None = None
) -> Iterator[Lab]:
    """Up, and down again whatever happens; another test run's leavings of that name go first."""
    emulations = Emulations()
    wish = Wish(name, backend, cpus_per_slot, ProcessIdentity.of(os.getpid()))
    record = emulations.up(wanted, "test", wish)
    try:
        yield Lab(emulations, record)
    finally:
        emulations.down(name)


def is_near(rate: float, wanted: float, tolerance: float) -> bool:
    return abs(rate / wanted - 1) <= tolerance


def wrong_ones(measure: Callable[[], dict[Pair, T]], is_right: Callable[[Pair, T], bool]) -> dict[Pair, T]:
    """What is not as it should be in any of some attempts.

    A machine that does other work meanwhile makes a link slower than it is, for a moment; one that is wrong is so each
    time.
    """
    wrong = {pair: value for pair, value in measure().items() if not is_right(pair, value)}
    for _ in range(ATTEMPTS - 1):
        if not wrong:
            break
        again = measure()
        wrong = {pair: again[pair] for pair in wrong if not is_right(pair, again[pair])}
    return wrong


@contextmanager
def _servers(within: Lab, sites: list[str]) -> Iterator[list[int]]:
    """One for each pair: a server takes one test at a time."""
    ports = [PORT + number for number in range(len(sites))]
    servers = [
        subprocess.Popen(within.iperf3(site, "-s", "-J", "-i", "0.1", "-p", str(port)), stdout=subprocess.DEVNULL)
        for site, port in zip(sites, ports, strict=True)
    ]
    try:
        for site, port in zip(sites, ports, strict=True):
            _await_listener(within, site, port)
        yield ports
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(10)


def _await_listener(within: Lab, site: str, port: int) -> None:
    deadline_s = time.monotonic() + 20
    command = within.inside(site, "ss", "-Hltn", f"sport = :{port}")
    while not subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip():
        assert time.monotonic() < deadline_s, f"iperf3 does not listen at {site}"
        time.sleep(0.05)


def _steady_mbit_per_s(report: dict[str, object]) -> float:
    server = report.get("server_output_json")
    assert isinstance(server, dict), report.get("error")
    rates = [interval["sum"]["bits_per_second"] for interval in server["intervals"]][:-1]
    return float(statistics.median(rates[len(rates) // 2 :]) / 1e6)


def selat_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "selat", *arguments]


def environment(state: Path | None = None) -> dict[str, str]:
    """For commands of this source tree, with a home of their own."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, **({"XDG_STATE_HOME": str(state)} if state is not None else {})}


def run_selat(*arguments: str, state: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        selat_command(*arguments), capture_output=True, text=True, check=False, env=environment(state), timeout=300
    )


def machine_reaches(address: str) -> bool:
    """From outside all namespaces."""
    return (
        subprocess.run(["ping", "-c", "1", "-W", "2", "-q", address], capture_output=True, check=False).returncode == 0
    )


def namespaces() -> list[str]:
    listed = subprocess.run(["ip", "-json", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [entry["name"] for entry in json.loads(listed or "[]")]


def leavings(name: str) -> list[str]:
    """All that is there of an emulation: namespaces, files, control groups, devices, processes."""
    found = [f"namespace {n}" for n in namespaces() if belongs_to(n, name)]
    found += [f"directory {path}" for path in [RUN / name] if path.exists()]
    found += [f"control group {path}" for path in CpuGroups(name).directory("*").parent.glob(f"selat-{name}.*")]
    found += [f"process {pid}" for pid in processes_of(name)]
    return found


def devices() -> set[str]:
    """In the machine's own namespace."""
    listed = subprocess.run(["ip", "-json", "link"], capture_output=True, text=True, check=True).stdout
    return {entry["ifname"] for entry in json.loads(listed)}


def processes_of(name: str) -> list[int]:
    """Processes that say the emulation's directory on their command line, as those of the backends do."""
    directory = f"{RUN / name}/"
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(directory in word for word in process.info["cmdline"] or ())
    ]
