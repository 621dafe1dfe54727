"""The monitor of links beside the truth: an emulated WAN whose bandwidths are known, links of 5 to 200 Mbit/s.

    sudo python -m benchmarks.monitor [--backend tun] [--seconds 30] [--record FILE]

A master and three agents (the real ones, but for Spark: `benchmarks.monitor_site`) in network namespaces, probing at
default settings. What the master thinks of each ordered pair is compared with the emulated rate times the share of it
that full-sized TCP packets carry as payload (0.956): idle; with transfers of our own, at 60 % of each link and all that
goes; with foreign ones, which the monitor cannot know of. Then links are halved while they run. What probes cost is
counted by the kernel's shaper, idle. Needs root, iperf3 and a kernel with HTB; ends within ten minutes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import selat
from benchmarks.report import make_parser, median, met, publish, say, table
from selat.dev.errors import DevError
from selat.dev.identity import ProcessIdentity
from selat.dev.topology import read_topology
from selat.wan.emulation import Emulations, Wish
from selat.wan.errors import WanError
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
LOADED_TOGETHER: Sequence[Sequence[Pair]] = (
    (("us", "eu"), ("asia", "eu")),
    (("eu", "us"), ("us", "asia")),
    (("asia", "us"), ("eu", "asia")),
)
"""All at once would be more than an emulation in user space passes on."""
NAME = "bench"
PORT = 7410
FOREIGN_PORT = 5300
PARTLY = 0.6
"""Of a link, that a load takes which could not take more."""
WITHIN = 0.15
NOTICED_WITHIN_S = 15.0
FULL_EVERY_S = 600.0
MOST_COST = 0.02
START_LIMIT_S = 30.0
NOTICE_LIMIT_S = 60.0
SETTLE_S = 8.0
"""So long a load runs before estimates count against it."""
_POLL_S = 0.25
_CLASS = re.compile(r"^class htb (\S+) .*\n Sent (\d+) bytes", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the master thought of all links at one moment."""

    at_s: float
    capacity_bytes_per_s: Mapping[Pair, float]
    used_bytes_per_s: Mapping[Pair, float]


Series = Sequence[Reading]
Looks = Mapping[Pair, Series]
"""The readings that count for each link."""


def payload_bytes_per_s(mbit_per_s: float) -> float:
    """What a link of that rate carries as payload of full-sized TCP packets."""
    return mbit_per_s * 125e3 * PAYLOAD_RATIO


def off(estimate: float, truth: float) -> float:
    """Signed, as a share of the truth."""
    return estimate / truth - 1


def offs(series: Series, pair: Pair) -> list[float]:
    truth = payload_bytes_per_s(LINKS[pair][0])
    return [off(reading.capacity_bytes_per_s[pair], truth) for reading in series]


def worst(values: Sequence[float]) -> float:
    """The one furthest from 0, with its sign."""
    return max(values, key=abs)


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes on the wire of idle links: probes, echoes, and what agents and master say to one another."""

    first_bytes: Mapping[Pair, int]
    """Until the links were known and settled: a full probe each, and some trains."""
    idle_bytes: Mapping[Pair, int]
    """After that."""
    idle_s: float

    def idle_share(self, pair: Pair) -> float:
        return self.idle_bytes[pair] / (LINKS[pair][0] * 125e3 * self.idle_s)

    def share(self, pair: Pair) -> float:
        """With a full probe every ten minutes, as at default settings."""
        return self.idle_share(pair) + self.first_bytes[pair] / (LINKS[pair][0] * 125e3 * FULL_EVERY_S)


@dataclass(frozen=True, slots=True)
class Findings:
    """All that was measured."""

    known_after_s: float
    """From the start of the last agent until every link had been measured."""
    idle: Looks
    partly: Looks
    fully: Looks
    foreign: Looks
    cost: Cost
    noticed_idle_s: Mapping[Pair, float | None]
    noticed_loaded_s: Mapping[Pair, float | None]
    noticed_at_once_s: Mapping[Pair, float | None]
    """All links doubled at one moment."""


class Scene:
    """The cluster, its links, and the processes at its sites."""

    def __init__(self, emulations: Emulations, record: Record, stack: ExitStack, root: Path) -> None:
        self._emulations = emulations
        self._record = record
        self._root = root
        self._sites: dict[str, IO[str]] = {}
        self._channels = 0
        layout = record.layout
        listen = f"0.0.0.0:{PORT}"
        arguments = ["--listen", listen, "--topology", record.topology, "--data", str(root / "master")]
        self._start(stack, layout.gateway, "master", "master", arguments)
        for site in SITES:
            address = ["--listen", f"{layout.address(site)}:0", "--master", f"{layout.address(layout.gateway)}:{PORT}"]
            data = ["--site", site, "--data", str(root / "sites")]
            self._sites[site] = self._start(stack, site, site, "benchmarks.monitor_site", [*address, *data])
        self._client = stack.enter_context(selat.connect(f"{layout.uplink_address}:{PORT}"))

    def _start(self, stack: ExitStack, site: str, name: str, module: str, arguments: Sequence[str]) -> IO[str]:
        """In the site's namespace; when it serves."""
        ready = self._root / f"{name}.ready"
        entrance = self._emulations.entrance(self._record, site)
        command = [*entrance, sys.executable, "-m", module, *arguments, "--ready-file", str(ready)]
        log = stack.enter_context((self._root / f"{name}.log").open("w"))
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True)
        stack.callback(_end, process)
        deadline_s = time.monotonic() + START_LIMIT_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise DevError.of(f"{name} does not serve", hint=Path(log.name).read_text()[-500:])
            time.sleep(_POLL_S)
        assert process.stdin is not None
        return process.stdin

    def read(self) -> Reading | None:
        """None: some link was never measured."""
        links = {(view.from_site, view.to_site): view for view in self._client.links()}
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
        self._emulations.change(NAME, changes)

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
        for source in SITES:
            # Of classes, tc prints no JSON.
            command = ["tc", "-n", layout.namespace(source), "-s", "class", "show", "dev", WAN_DEVICE]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            classes = dict(_CLASS.findall(said))
            for target in SITES:
                if target != source:
                    found[source, target] = int(classes[f"1:{layout.index(target):x}"])
        return found

    @contextmanager
    def own_load(self, pairs: Sequence[Pair], share: float | None) -> Iterator[None]:
        """Transfers of ours on these links: of this share of each, or None: as much as goes."""
        self._channels += 1
        channels = {pair: f"load-{self._channels}.{pair[0]}.{pair[1]}" for pair in pairs}
        for (source, target), channel in channels.items():
            rate = payload_bytes_per_s(LINKS[source, target][0]) * share if share is not None else None
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
        pipe = self._sites[site]
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
def scene(backend: str | None) -> Iterator[tuple[Scene, str]]:
    """Up, and down again whatever happens; and the backend that was taken."""
    emulations = Emulations()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="selat-monitor-")))
        file = root / "topology.yaml"
        links = [
            f"  - {{from: {a}, to: {b}, bandwidth: {mbit:g}Mbit/s, latency: {ms}ms}}"
            for (a, b), (mbit, ms) in LINKS.items()
        ]
        file.write_text("\n".join(["gateway: us", "sites: {us: {}, eu: {}, asia: {}}", "links:", *links]) + "\n")
        wish = Wish(NAME, backend, owner=ProcessIdentity.of(os.getpid()))
        record = emulations.up(read_topology(file), str(file), wish)
        stack.callback(emulations.down, NAME)
        with ExitStack() as processes:
            yield Scene(emulations, record, processes, root), record.backend


def measure(place: Scene, seconds: int) -> Findings:
    known_after_s = place.until_known()
    say(f"every link is measured after {known_after_s:.1f} s; idle")
    place.watch(SETTLE_S)
    first_bytes, began_s = place.wire_bytes(), time.monotonic()
    idle = place.watch(2 * seconds)
    idle_bytes = {pair: total - first_bytes[pair] for pair, total in place.wire_bytes().items()}
    cost = Cost(first_bytes, idle_bytes, time.monotonic() - began_s)
    say(f"{_brief(idle, list(LINKS))}; cost {', '.join(f'{cost.share(pair):.2%}' for pair in LINKS)}")
    say("halving one link after the other, idle")
    noticed_idle = _halved_one_by_one(place, list(LINKS))
    say("doubling all of them at once")
    noticed_at_once = place.noticed(_rates(1.0))
    say(", ".join(_seconds(time_s) for time_s in noticed_at_once.values()))
    partly: dict[Pair, Series] = {}
    fully: dict[Pair, Series] = {}
    foreign: dict[Pair, Series] = {}
    noticed_loaded: dict[Pair, float | None] = {}
    for pairs in LOADED_TOGETHER:
        place.watch(SETTLE_S)
        with place.own_load(pairs, PARTLY):
            partly |= _watched(place, pairs, seconds, f"{PARTLY:.0%} ours")
        with place.own_load(pairs, None):
            fully |= _watched(place, pairs, seconds, "all ours")
            noticed_loaded |= _halved_one_by_one(place, pairs)
        place.set_rate(_rates(1.0))
        place.watch(SETTLE_S)
        with place.foreign_load(pairs, seconds + int(3 * SETTLE_S)):
            foreign |= _watched(place, pairs, seconds, "foreign")
    every = dict.fromkeys(LINKS, idle)
    return Findings(known_after_s, every, partly, fully, foreign, cost, noticed_idle, noticed_loaded, noticed_at_once)


def _watched(place: Scene, pairs: Sequence[Pair], seconds: int, load: str) -> Looks:
    """Once the load has run for a while."""
    place.watch(SETTLE_S)
    series = place.watch(seconds)
    say(f"{load}: {_brief(series, pairs)}")
    return dict.fromkeys(pairs, series)


def _brief(series: Series, pairs: Sequence[Pair]) -> str:
    """Median and worst estimate of links, for whoever waits."""
    parts = []
    for pair in pairs:
        values = offs(series, pair)
        parts.append(f"{LINKS[pair][0]:g}: {median(values):+.0%} ({worst(values):+.0%})")
    return "off by " + ", ".join(parts)


def _rates(factor: float) -> dict[Pair, float]:
    return {pair: rate * factor for pair, (rate, _) in LINKS.items()}


def _halved_one_by_one(place: Scene, pairs: Sequence[Pair]) -> dict[Pair, float | None]:
    found: dict[Pair, float | None] = {}
    for pair in pairs:
        found |= place.noticed({pair: LINKS[pair][0] / 2})
        say(f"{'->'.join(pair)}: {_seconds(found[pair])}")
    return found


def report(found: Findings, backend: str) -> list[str]:
    """The tables."""
    return [
        f"Backend `{backend}`. All links were measured {found.known_after_s:.1f} s after the last agent was there.",
        _estimates(found),
        _noticing(found),
        _costs(found),
    ]


def _estimates(found: Findings) -> str:
    head = ["link, round trip", "carries", "idle", "worst", "60 % ours", "worst", "all ours", "worst", "got", "foreign"]
    rows = []
    for pair in LINKS:
        cells = []
        for looks in (found.idle, found.partly, found.fully):
            cells += [_mbit(_median_capacity(looks[pair], pair)), f"{worst(offs(looks[pair], pair)):+.1%}"]
        got = median([reading.used_bytes_per_s[pair] for reading in found.fully[pair]])
        carried = payload_bytes_per_s(LINKS[pair][0])
        foreign = _median_capacity(found.foreign[pair], pair)
        rows.append([_label(pair), _mbit(carried), *cells, _mbit(got), _mbit(foreign)])
    counted = (found.idle, found.partly, found.fully)
    wanted = [abs(value) for looks in counted for pair in LINKS for value in offs(looks[pair], pair)]
    share = sum(value <= WITHIN for value in wanted) / len(wanted)
    reached = f"Reached at every look: {met(max(wanted), at_most=WITHIN)}; at {share:.1%} of {len(wanted)} looks."
    return f"{table(head, rows)}\n\nWanted: within {WITHIN:.0%}. {reached}"


def _noticing(found: Findings) -> str:
    head = ["link", "halved, idle", "halved, all ours on it", "all six doubled at once, idle"]
    columns = (found.noticed_idle_s, found.noticed_loaded_s, found.noticed_at_once_s)
    rows = [[_label(pair), *(_seconds(column[pair]) for column in columns)] for pair in LINKS]
    slowest_s = max(column[pair] or NOTICE_LIMIT_S for column in columns[:2] for pair in LINKS)
    reached = met(slowest_s, at_most=NOTICED_WITHIN_S)
    return f"{table(head, rows)}\n\nWanted: halved links within {NOTICED_WITHIN_S:.0f} s. Reached: {reached}."


def _costs(found: Findings) -> str:
    cost = found.cost
    head = ["link", f"{cost.idle_s:.0f} s idle, kB/s", "of the link", "with a full probe every 10 min"]
    rows = []
    for pair in LINKS:
        kb_per_s = cost.idle_bytes[pair] / cost.idle_s / 1e3
        rows.append([_label(pair), f"{kb_per_s:.1f}", f"{cost.idle_share(pair):.2%}", f"{cost.share(pair):.2%}"])
    reached = met(max(cost.share(pair) for pair in LINKS), at_most=MOST_COST)
    return f"{table(head, rows)}\n\nWanted: {MOST_COST:.0%} at most. Reached: {reached}."


def _median_capacity(series: Series, pair: Pair) -> float:
    return median([reading.capacity_bytes_per_s[pair] for reading in series])


def _label(pair: Pair) -> str:
    return f"{pair[0]}->{pair[1]}, {LINKS[pair][0]:g} Mbit/s, {_rtt_ms(pair)} ms"


def _rtt_ms(pair: Pair) -> int:
    return LINKS[pair][1] + LINKS[pair[1], pair[0]][1]


def _mbit(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 125e3:.3g}"


def _seconds(time_s: float | None) -> str:
    return f"{time_s:.1f} s" if time_s is not None else f"not in {NOTICE_LIMIT_S:.0f} s"


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--backend", choices=("netem", "tun", "rate-only"), help="of the emulation; default: the best")
    parser.add_argument("--seconds", type=int, default=30, help="of each load; twice that idle")
    arguments = parser.parse_args()
    try:
        with scene(arguments.backend) as (place, backend):
            found = measure(place, arguments.seconds)
    except (WanError, DevError) as error:
        say(f"{error.message} ({error.hint})" if error.hint else error.message)
        return 1
    publish("monitor", "The monitor of links", report(found, backend), arguments.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
