"""The monitor of links beside the truth: an emulated WAN whose bandwidths are known, links of 5 to 200 Mbit/s.

    sudo python -m benchmarks.monitor [--backend tun] [--seconds 20] [--record FILE]

A master and three agents (the real ones, but for Spark: `benchmarks.monitor_site`) in network namespaces, probing at
default settings. What the master thinks of each ordered pair is compared with the emulated rate times the share of it
that full-sized TCP packets carry as payload (0.956): idle; with transfers of our own, at 60 % of each link and all that
goes; with foreign ones, which the monitor cannot know of. Then links are halved while they run. What probes cost is
counted by the kernel's shaper, idle. Needs root, iperf3 and a kernel with HTB; ends within ten minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.monitor_scene import (
    LINKS,
    NOTICE_LIMIT_S,
    WITHIN,
    Pair,
    Scene,
    Series,
    off,
    payload_bytes_per_s,
    scene,
)
from benchmarks.report import make_parser, median, publish, say, table
from evidence.criteria import Finding
from selat.local.errors import DevError
from selat.wan.errors import WanError

LOADED_TOGETHER: Sequence[Sequence[Pair]] = (
    (("us", "eu"), ("asia", "eu")),
    (("eu", "us"), ("us", "asia")),
    (("asia", "us"), ("eu", "asia")),
)
"""All at once would be more than an emulation in user space passes on."""
PARTLY = 0.6
"""Of a link, that a load takes which could not take more."""
FULL_EVERY_S = 600.0
SETTLE_S = 8.0
"""So long a load runs before estimates count against it."""

Looks = Mapping[Pair, Series]
"""The readings that count for each link."""


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
    """Until all links were known: a full probe each, and some trains."""
    idle_bytes: Mapping[Pair, int]
    """Later, in `idle_s`."""
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

    @property
    def offs(self) -> list[float]:
        """The relative error of each estimate that counts: on idle links, and on links that we load."""
        counted = (self.idle, self.partly, self.fully)
        return [abs(value) for looks in counted for pair in LINKS for value in offs(looks[pair], pair)]

    @property
    def criteria(self) -> dict[str, float | Finding]:
        """The figures of the criteria. There is none for notice if a halved link was not noticed in time."""
        noticed = [times[pair] for times in (self.noticed_idle_s, self.noticed_loaded_s) for pair in LINKS]
        known_s = [time_s for time_s in noticed if time_s is not None]
        late = f"{len(noticed) - len(known_s)} not in {NOTICE_LIMIT_S:.0f} s"
        return {
            "estimate": 100 * max(self.offs),
            "noticed": max(known_s) if len(known_s) == len(noticed) else Finding(None, late),
            "cost": 100 * max(self.cost.share(pair) for pair in LINKS),
        }


def measure(place: Scene, seconds: int) -> Findings:
    known_after_s = place.until_known()
    say(f"every link is measured after {known_after_s:.1f} s; idle")
    first_bytes = place.wire_bytes()
    place.watch(SETTLE_S)
    before_bytes, began_s = place.wire_bytes(), time.monotonic()
    idle = place.watch(2 * seconds)
    idle_bytes = {pair: total - before_bytes[pair] for pair, total in place.wire_bytes().items()}
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
        _legend(),
        f"Backend `{backend}`. All links were measured {found.known_after_s:.1f} s after the last agent was there.",
        _estimates(found),
        _noticing(found),
        _costs(found),
    ]


def _legend() -> str:
    """The explanation of the tables."""
    return f"""- *carries*: Mbit/s of the emulated rate that are payload of full-sized TCP packets, 0.956 of it. The TUN
  devices of the backend `tun` have no Ethernet header, so there it is 0.965, and estimates are 1 % above.
- *idle*, *{PARTLY:.0%} ours*, *all ours*, *foreign*: the median of the master's estimate, looked at four times a
  second, with no load, with transfers between the agents of {PARTLY:.0%} of the link or of all that goes, and with an
  iperf3 that is none of ours. Loads run on two links at a time, and count after {SETTLE_S:g} s. *worst* is the estimate
  furthest off at any look. *got* is the rate of our transfers, as the master knows it.
- Foreign traffic cannot be told from a slower link. No criterion is set for the figures under it.
- *halved*: from the change of the link until the estimate is within {WITHIN:.0%} of the new rate.
- The cost of probes is counted by the shaper of each link: all bytes on the wire, also echoes, and the traffic between
  agents and master. A link may save up some seconds of probing, so a short time can cost more than the criterion
  allows, the mean over long ones cannot.
- Emulation, agents and probes share the machine with whatever else runs there, and a packet that waits tens of
  milliseconds for a process looks like a slow link: on a busy machine single looks are far off, and notice is late."""


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
    wanted = found.offs
    share = sum(value <= WITHIN for value in wanted) / len(wanted)
    return f"{table(head, rows)}\n\nWithin {WITHIN:.0%} at {share:.1%} of {len(wanted)} looks."


def _noticing(found: Findings) -> str:
    head = ["link", "halved, idle", "halved, all ours on it", "all six doubled at once, idle"]
    columns = (found.noticed_idle_s, found.noticed_loaded_s, found.noticed_at_once_s)
    rows = [[_label(pair), *(_seconds(column[pair]) for column in columns)] for pair in LINKS]
    return table(head, rows)


def _costs(found: Findings) -> str:
    cost = found.cost
    head = ["link", f"{cost.idle_s:.0f} s idle, kB/s", "of the link", "with a full probe every 10 min"]
    rows = []
    for pair in LINKS:
        kb_per_s = cost.idle_bytes[pair] / cost.idle_s / 1e3
        rows.append([_label(pair), f"{kb_per_s:.1f}", f"{cost.idle_share(pair):.2%}", f"{cost.share(pair):.2%}"])
    return table(head, rows)


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
    parser.add_argument("--seconds", type=int, default=20, help="of each load; twice that idle")
    arguments = parser.parse_args()
    try:
        with scene(arguments.backend) as (place, backend):
            found = measure(place, arguments.seconds)
    except (WanError, DevError) as error:
        say(f"{error.message} ({error.hint})" if error.hint else error.message)
        return 1
    publish("monitor", "Estimates, notice and cost", report(found, backend), arguments.record, found.criteria)
    return 0


if __name__ == "__main__":
    sys.exit(main())
