"""A cluster in an emulated WAN whose bandwidths are known, for `benchmarks.monitor`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import selat
from selat.local.errors import DevError
from selat.local.identity import ProcessIdentity
from selat.local.topology import read_topology
from selat.wan.emulation import Emulations, Wish
from selat.wan.layout import WAN_DEVICE
from selat.wan.links import LinkChange
from selat.wan.record import Record
from selat.wan.shaping import PAYLOAD_RATIO

Pair = tuple[str, str]

SITES = ("us", "eu", "asia")
LINKS: Mapping[Pair, tuple[float, int]] = {
    ("us", "eu"): (200, 20),
    ("eu", "us"): (100, 20),
    ("us", "asia"): (50, 60),
    ("asia", "us"): (20, 60),
    ("eu", "asia"): (10, 45),
    ("asia", "eu"): (5, 45),
}
"""Mbit/s, and milliseconds one way."""
PORT = 7410
FOREIGN_PORT = 5300
WITHIN = 0.15
START_LIMIT_S = 30.0
NOTICE_LIMIT_S = 60.0
_POLL_S = 0.25
_TREE = Path(__file__).parents[1]
_CLASS = re.compile(r"^class htb (\S+) .*\n Sent (\d+) bytes", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the master thought of all links at one moment."""

    at_s: float
    capacity_bytes_per_s: Mapping[Pair, float]
    used_bytes_per_s: Mapping[Pair, float]


Series = Sequence[Reading]


@dataclass(frozen=True, slots=True)
class Setting:
    """What kind of a scene to make."""

    name: str
    """Of the emulated WAN."""
    links: Mapping[Pair, tuple[float, int]]
    """As `LINKS`, of all pairs of sites; the first site is the gateway."""
    without_iperf3: Collection[str] = ()
    """Sites whose agents find no programs."""

    def topology(self) -> str:
        """The file that says so."""
        sites = list(dict.fromkeys(source for source, _ in self.links))
        links = [
            f"  - {{from: {a}, to: {b}, bandwidth: {mbit:g}Mbit/s, latency: {ms}ms}}"
            for (a, b), (mbit, ms) in self.links.items()
        ]
        named = ", ".join(f"{site}: {{}}" for site in sites)
        return "\n".join([f"gateway: {sites[0]}", f"sites: {{{named}}}", "links:", *links]) + "\n"


BENCHMARK = Setting("bench", LINKS)


def payload_bytes_per_s(mbit_per_s: float) -> float:
    """What a link of that rate carries as payload of full-sized TCP packets."""
    return mbit_per_s * 125e3 * PAYLOAD_RATIO


def off(estimate: float, truth: float) -> float:
    """Signed, as a share of the truth."""
    return estimate / truth - 1


class Scene:
    """The cluster, its links, and the processes at its sites."""

    def __init__(self, emulations: Emulations, record: Record, setting: Setting, stack: ExitStack, root: Path) -> None:
        self._emulations = emulations
        self._record = record
        self._setting = setting
        self._stack = stack
        self._root = root
        self._channels = 0
        layout = record.layout
        listen = f"0.0.0.0:{PORT}"
        arguments = ["--listen", listen, "--insecure", "--topology", record.topology, "--data", str(root / "master")]
        self._await_ready("master", self._start(layout.gateway, "master", ["-m", "master", *arguments]))
        self._sites = {site: self._start_agent(site) for site in layout.sites}
        for site, process in self._sites.items():
            self._await_ready(site, process)
        self.address = f"{layout.uplink_address}:{PORT}"
        """At which the machine finds the master."""
        self.client = stack.enter_context(selat.connect(self.address))

    def _start_agent(self, site: str) -> subprocess.Popen[str]:
        layout = self._record.layout
        address = ["--listen", f"{layout.address(site)}:0", "--master", f"{layout.address(layout.gateway)}:{PORT}"]
        data = ["--site", site, "--data", str(self._root / "sites")]
        without = ("env", "PATH=/nonexistent") if site in self._setting.without_iperf3 else ()
        return self._start(site, site, ["-m", "benchmarks.monitor_site", *address, *data], without)

    def _start(
        self, site: str, name: str, arguments: Sequence[str], before: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """Python in the site's namespace, ended with the scene."""
        entrance = self._emulations.entrance(self._record, site)
        ready = ["--ready-file", str(self._root / f"{name}.ready")]
        log = self._stack.enter_context((self._root / f"{name}.log").open("w"))
        command = [*entrance, *before, sys.executable, *arguments, *ready]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, cwd=_TREE)
        self._stack.callback(_end, process)
        return process

    def _await_ready(self, name: str, process: subprocess.Popen[str]) -> None:
        deadline_s = time.monotonic() + START_LIMIT_S
        while not (self._root / f"{name}.ready").exists():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise DevError.of(f"{name} does not serve", hint=(self._root / f"{name}.log").read_text()[-500:])
            time.sleep(_POLL_S)

    def read(self) -> Reading | None:
        """None: some link was never measured."""
        links = {(view.from_site, view.to_site): view for view in self.client.links()}
        if any(view.age is None for view in links.values()):
            return None
        return Reading(
            time.monotonic(),
            {pair: view.capacity_bytes_per_s for pair, view in links.items()},
            {pair: view.used_bytes_per_s for pair, view in links.items()},
        )

    def until_known(self) -> float:
        """Seconds until every link was measured."""
        began_s = time.monotonic()
        while self.read() is None:
            if time.monotonic() - began_s > NOTICE_LIMIT_S:
                raise DevError.of("not every link was measured in a minute", hint=f"logs are in {self._root}")
            time.sleep(_POLL_S)
        return time.monotonic() - began_s

    def watch(self, seconds: float) -> Series:
        series: list[Reading] = []
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            reading = self.read()
            if reading is not None:
                series.append(reading)
            time.sleep(_POLL_S)
        return series

    def set_rate(self, rates: Mapping[Pair, float]) -> None:
        """Mbit/s, at once."""
        changes = {pair: LinkChange(bandwidth_bytes_per_s=rate * 125e3) for pair, rate in rates.items()}
        self._emulations.change(self._record.layout.name, changes)

    def noticed(self, rates: Mapping[Pair, float]) -> dict[Pair, float | None]:
        """Change links; seconds until each one's estimate is where it belongs, None when that takes too long."""
        self.set_rate(rates)
        began_s = time.monotonic()
        found: dict[Pair, float | None] = {}
        while len(found) < len(rates) and time.monotonic() - began_s < NOTICE_LIMIT_S:
            reading = self.read()
            if reading is not None:
                capacity = reading.capacity_bytes_per_s
                near = {p for p in rates if abs(off(capacity[p], payload_bytes_per_s(rates[p]))) <= WITHIN}
                found |= dict.fromkeys(near - found.keys(), reading.at_s - began_s)
            time.sleep(_POLL_S)
        return {pair: found.get(pair) for pair in rates}

    def wire_bytes(self) -> dict[Pair, int]:
        """What the shaper of each link has let through so far."""
        layout, found = self._record.layout, {}
        for source in layout.sites:
            # Of classes, tc prints no JSON.
            command = ["tc", "-n", layout.namespace(source), "-s", "class", "show", "dev", WAN_DEVICE]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            classes = dict(_CLASS.findall(said))
            for target in layout.sites:
                if target != source:
                    found[source, target] = int(classes[f"1:{layout.index(target):x}"])
        return found

    @contextmanager
    def own_load(self, pairs: Sequence[Pair], share: float | None) -> Iterator[None]:
        """Transfers of ours on these links: of this share of each, or None: as much as goes."""
        self._channels += 1
        channels = {pair: f"load-{self._channels}.{pair[0]}.{pair[1]}" for pair in pairs}
        for (source, target), channel in channels.items():
            rate = payload_bytes_per_s(self._setting.links[source, target][0]) * share if share is not None else None
            self._say(source, {"send": channel, "to": target, "bytes_per_s": rate})
            self._say(target, {"pull": channel, "from": source})
        try:
            yield
        finally:
            for (source, target), channel in channels.items():
                self._say(target, {"end": channel})
                self._say(source, {"end": channel})

    @contextmanager
    def foreign_load(self, pairs: Sequence[Pair], seconds: int) -> Iterator[None]:
        """An iperf3 on each of these links, all they carry."""
        layout, servers, clients = self._record.layout, [], []
        for number, (_, target) in enumerate(pairs):
            server = ["iperf3", "-s", "-1", "-p", str(FOREIGN_PORT + number)]
            servers.append(self._quiet(target, server))
        time.sleep(1)
        for number, (source, target) in enumerate(pairs):
            client = ["iperf3", "-c", layout.address(target), "-p", str(FOREIGN_PORT + number), "-t", str(seconds)]
            clients.append(self._quiet(source, client))
        try:
            yield
        finally:
            for process in (*clients, *servers):
                _end(process)

    def _quiet(self, site: str, command: Sequence[str]) -> subprocess.Popen[str]:
        entrance = self._emulations.entrance(self._record, site)
        return subprocess.Popen([*entrance, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)

    def _say(self, site: str, command: Mapping[str, object]) -> None:
        pipe = self._sites[site].stdin
        assert pipe is not None
        pipe.write(json.dumps(command) + "\n")
        pipe.flush()


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def scene(backend: str | None, setting: Setting = BENCHMARK) -> Iterator[tuple[Scene, str]]:
    """Up, and down again whatever happens; and the backend that was taken."""
    emulations = Emulations()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="selat-monitor-")))
        file = root / "topology.yaml"
        file.write_text(setting.topology())
        wish = Wish(setting.name, backend, owner=ProcessIdentity.of(os.getpid()))
        record = emulations.up(read_topology(file), str(file), wish)
        stack.callback(emulations.down, setting.name)
        with ExitStack() as processes:
            yield Scene(emulations, record, setting, processes, root), record.backend
