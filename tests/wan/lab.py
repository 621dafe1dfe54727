"""An emulated WAN for a test, and what `ping` and `iperf3` see in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from planner.topology import Link, Site, Topology
from selat.dev.identity import ProcessIdentity
from selat.dev.state import read_json
from selat.wan.emulation import Emulations, Wish
from selat.wan.record import RUN, Record

PORT = 5201
TOOLS = ("iperf3", "ping", "ip", "tc")


def what_is_missing() -> str:
    """Why tests with namespaces cannot run here; empty: they can."""
    if os.geteuid() != 0:
        return "needs root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None and not Path("/usr/sbin", tool).exists()]
    return f"not installed: {', '.join(absent)}" if absent else ""


def topology(links: dict[tuple[str, str], tuple[float, float]]) -> Topology:
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

    def rtt_ms(self, source: str, target: str, count: int = 5) -> float | None:
        """The least round trip of some pings; None: not one came back."""
        address = self.record.layout.address(target)
        command = self.inside(source, "ping", "-c", str(count), "-i", "0.2", "-W", "2", "-q", address)
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return float(said.rpartition("= ")[2].partition("/")[0]) if "rtt" in said else None

    def lost_share(self, source: str, target: str, count: int) -> float:
        """Of pings in quick succession."""
        address = self.record.layout.address(target)
        command = self.inside(source, "ping", "-c", str(count), "-i", "0.005", "-W", "1", "-q", address)
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        received = int(said.partition("transmitted, ")[2].split()[0])
        return 1 - received / count

    def goodput_mbit_per_s(self, pairs: list[tuple[str, str]], seconds: int = 4) -> dict[tuple[str, str], float]:
        """What all pairs carry at once: the mean over the second half, where slow start is over."""
        with _servers(self, [b for _, b in pairs]) as ports:
            clients = [
                subprocess.Popen(
                    self.inside(a, *_client(self.record.layout.address(b), port, seconds)),
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for (a, b), port in zip(pairs, ports, strict=True)
            ]
            outputs = [client.communicate(timeout=seconds + 60)[0] for client in clients]
        return {pair: _steady_mbit_per_s(json.loads(text)) for pair, text in zip(pairs, outputs, strict=True)}


@contextmanager
def lab(wanted: Topology, backend: str, *, name: str = "test") -> Iterator[Lab]:
    """Up, and down again whatever happens; another test run's leavings of that name go first."""
    emulations = Emulations()
    wish = Wish(name, backend, owner=ProcessIdentity.of(os.getpid()))
    record = emulations.up(wanted, "test", wish)
    try:
        yield Lab(emulations, record)
    finally:
        emulations.down(name)


def _client(address: str, port: int, seconds: int) -> list[str]:
    return ["iperf3", "-J", "-c", address, "-p", str(port), "-t", str(seconds), "-i", "0.1", "--get-server-output"]


@contextmanager
def _servers(within: Lab, sites: list[str]) -> Iterator[list[int]]:
    """One for each pair: a server takes one test at a time."""
    ports = [PORT + number for number in range(len(sites))]
    servers = [
        subprocess.Popen(
            within.inside(site, "iperf3", "-s", "-J", "-i", "0.1", "-p", str(port)), stdout=subprocess.DEVNULL
        )
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
    half = rates[len(rates) // 2 :]
    return float(sum(half) / len(half) / 1e6)


def machine_reaches(address: str) -> bool:
    """From outside all namespaces."""
    return (
        subprocess.run(["ping", "-c", "1", "-W", "2", "-q", address], capture_output=True, check=False).returncode == 0
    )


def namespaces() -> list[str]:
    listed = subprocess.run(["ip", "-json", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [entry["name"] for entry in json.loads(listed or "[]")]


def delay_processes(name: str) -> list[ProcessIdentity]:
    """Of the emulation of that name."""
    found = read_json(RUN / name / "delayline.json")
    return [ProcessIdentity(**found)] if found is not None else []
