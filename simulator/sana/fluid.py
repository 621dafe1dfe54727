"""Streams as fluids, in small steps of virtual time: channels over links, bounded queues, back-pressure.

    operator --send queue--> link --receive queue--> readers, each an operator

- A link is shared max-min fairly by the channels on it that have something to send (`fair_shares`).
- An operator takes from its receive queues what the emptiest send queue behind it has room for, so a full queue stops
  what feeds it, up to the source, which then takes in fewer records: back-pressure.
- All readers of a channel take the same bytes at the same time: a router holds nothing back for the slower ones. An
  operator sends the same to all its channels: the slowest one sets the pace. Where sources do not wait, each of their
  channels has a pace of its own.
- Operators compute nothing in no time; what they send is what they take times a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.graph.ids import TaskId
from planner.sharing.running import Deployed, Running
from planner.sharing.vertices import VertexKind
from planner.values.topology import Topology
from simulator.network import Link

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

STEP_S = 0.1
QUEUE_BYTES = 4e6
"""Room of each send queue and of each receive queue. A channel can move no more than this in a step."""

_LOCAL: Link = ("", "")


@dataclass(frozen=True, slots=True)
class Channel:
    """What an operator sends to one site; without routers, to one reader."""

    producer: TaskId
    to: str | TaskId
    """A site, or an operator."""
    link: Link


def channels_of(running: Running, *, routers: bool) -> dict[Channel, list[TaskId]]:
    """The readers of each channel. Copies of tables are sent once: they are no streams."""
    found: dict[Channel, list[TaskId]] = {}
    for reader in running.deployed:
        site = running.site(reader.id)
        for name in reader.inputs:
            if running.task(name).vertex.kind is VertexKind.TABLE:
                continue
            home = running.site(name)
            link = (home, site) if home != site else _LOCAL
            found.setdefault(Channel(name, site if routers else reader.id, link), []).append(reader.id)
    return found


def fair_shares(demands: Floats, links: Places, capacities: Floats) -> Floats:
    """What each flow gets of its link: its demand, or where that is too much, as much as any other such flow.

    The same as `fairness.max_min_rates` for flows over one link each, with demands.

    Args:
        demands: by flow.
        links: the number of each flow's link.
        capacities: by link.
    """
    if not len(demands):
        return demands
    order = np.lexsort((demands, links))
    sorted_demands, sorted_links = demands[order], links[order]
    first = np.flatnonzero(np.concatenate(([True], sorted_links[1:] != sorted_links[:-1])))
    counts = np.diff(np.append(first, len(order)))
    segment = np.repeat(np.arange(len(first)), counts)
    granted = np.cumsum(sorted_demands) - sorted_demands
    granted -= granted[first][segment]
    waiting = counts[segment] - (np.arange(len(order)) - first[segment])
    # An equal share of what the smaller demands leave: the first that is less than a demand is what all from it on get.
    share = (capacities[sorted_links] - granted) / waiting
    short = sorted_demands > share
    level = np.full(len(first), -np.inf)
    np.maximum.at(level, segment[short], share[short])
    level[np.isneginf(level)] = np.inf
    result = np.empty_like(demands)
    result[order] = np.minimum(sorted_demands, level[segment])
    return result


@dataclass(frozen=True, slots=True)
class ChannelUse:
    """Of one channel, over the time that was measured."""

    channel: Channel
    bytes_per_s: float
    wait_s: float
    """In its queues, on average: what lay in them over what passed (Little)."""


class Fluid:
    """Operators and channels, and what is in their queues."""

    def __init__(self, topology: Topology, *, routers: bool, sources_wait: bool = True) -> None:
        self._routers = routers
        self._sources_wait = sources_wait
        self._link_numbers = {link: number for number, link in enumerate([_LOCAL, *sorted(topology.links)])}
        widths = [np.inf, *(topology.links[link].bandwidth_bytes_per_s for link in sorted(topology.links))]
        self._capacities: Floats = np.array(widths) * STEP_S
        self._channels: dict[Channel, list[TaskId]] = {}
        self._numbers: dict[TaskId, int] = {}
        self._sources: dict[TaskId, int] = {}
        self._sending: Floats = np.zeros(0)
        self._receiving: Floats = np.zeros(0)
        self._carried: Floats = np.zeros(len(widths))
        self.reset()

    def deploy(self, running: Running) -> None:
        """These run from now on; what is in the queues of channels that stay is kept."""
        kept = dict(zip(self._channels, zip(self._sending, self._receiving, strict=True), strict=True))
        self._channels = channels_of(running, routers=self._routers)
        self._numbers = {one.id: number for number, one in enumerate(running.deployed)}
        sources = [o.id for o in running.deployed if o.vertex.kind is VertexKind.SOURCE and not o.inputs]
        self._sources = {name: self._numbers[name] for name in sources}
        self._source_places = np.array(list(self._sources.values()), dtype=np.intp)
        queues = [kept.get(channel, (0.0, 0.0)) for channel in self._channels]
        self._sending = np.array([sending for sending, _ in queues])
        self._receiving = np.array([receiving for _, receiving in queues])
        self._of_source = np.array([channel.producer in self._sources for channel in self._channels], dtype=bool)
        self._producer = np.array([self._numbers[channel.producer] for channel in self._channels], dtype=np.intp)
        self._link = np.array([self._link_numbers[channel.link] for channel in self._channels], dtype=np.intp)
        edges = [(c, self._numbers[r]) for c, readers in enumerate(self._channels.values()) for r in readers]
        self._edge_channel = np.array([channel for channel, _ in edges], dtype=np.intp)
        self._edge_reader = np.array([reader for _, reader in edges], dtype=np.intp)
        self._ratio = np.array([_ratio(one, running) for one in running.deployed])
        self.reset()

    def reset(self) -> None:
        """Measure from now on."""
        self._measured_s = 0.0
        self._moved = np.zeros(len(self._channels))
        self._waiting = np.zeros(len(self._channels))

    def carried(self) -> dict[Link, float]:
        """Bytes over each link since it was last asked."""
        found = {link: float(self._carried[number]) for link, number in self._link_numbers.items() if link != _LOCAL}
        self._carried[:] = 0.0
        return found

    def advance(self, until_s: float, rates: Mapping[TaskId, float]) -> None:
        """So many seconds on, with what each source has to send in bytes per second."""
        offered = np.array([rates[name] for name in self._sources]) * STEP_S
        for _ in range(round(until_s / STEP_S)):
            self._step(offered)

    def _step(self, offered: Floats) -> None:
        self._compute(offered)
        demands = np.minimum(self._sending, _room(self._receiving))
        moved = fair_shares(demands, self._link, self._capacities)
        self._waiting += self._receiving
        self._sending -= moved
        self._receiving += moved
        self._waiting += self._sending
        self._moved += moved
        self._carried += np.bincount(self._link, moved, len(self._carried))
        self._measured_s += STEP_S

    def _compute(self, offered: Floats) -> None:
        """Operators take from receive queues, and fill send queues."""
        count = len(self._numbers)
        ratio = self._ratio[self._edge_reader]
        wanted = np.bincount(self._edge_reader, self._receiving[self._edge_channel] * ratio, count)
        wanted[self._source_places] = offered
        room = np.full(count, np.inf)
        np.minimum.at(room, self._producer, _room(self._sending))
        pace = np.minimum(1.0, np.divide(room, wanted, out=np.ones(count), where=wanted > 0))
        slowest = np.ones(len(self._channels))
        np.minimum.at(slowest, self._edge_channel, pace[self._edge_reader])
        taken = self._receiving * slowest
        self._receiving = self._receiving - taken
        made = np.bincount(self._edge_reader, taken[self._edge_channel] * ratio, count)
        made[self._source_places] = offered * pace[self._source_places] if self._sources_wait else offered
        sent = made[self._producer]
        if not self._sources_wait:
            sent = np.where(self._of_source, np.minimum(sent, _room(self._sending)), sent)
        self._sending = self._sending + sent

    def uses(self) -> list[ChannelUse]:
        """What every channel carried, and how long it took."""
        found = []
        for number, channel in enumerate(self._channels):
            moved, waiting = float(self._moved[number]), float(self._waiting[number])
            found.append(ChannelUse(channel, moved / self._measured_s, waiting * STEP_S / moved if moved else 0.0))
        return found

    def readers(self, channel: Channel) -> Sequence[TaskId]:
        return self._channels[channel]


def _room(queues: Floats) -> Floats:
    """Rounding may overfill a queue by a trace."""
    return np.maximum(0.0, QUEUE_BYTES - queues)


def _ratio(one: Deployed, running: Running) -> float:
    """Bytes that an operator sends for each byte that it takes."""
    inputs = [running.task(name).vertex for name in one.inputs]
    taken = sum(vertex.output_bytes_per_s for vertex in inputs if vertex.kind is not VertexKind.TABLE)
    return one.vertex.output_bytes_per_s / taken if taken else 0.0
