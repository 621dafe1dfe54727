"""A simulated tree: sites whose combining tasks send over a site between, which has rows of its own or none."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import pyarrow as pa

from site_agent.exchange.outbound import Outbound
from site_agent.tasks.pool import SendPool
from tests.unit.site_agent.tasks.combining import Load, Outcome, Sender, Stream, Wire, least_bytes_of

BETWEEN = "hub"
NAMES = 77
"""The keys are the same at all sites."""
WIRE_SHARE = 0.956
"""Of a link's rate, what is left for payloads."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Sites with the same keys, each with a wire of its own to the site between, which has one to the reader."""

    load: Load
    leaves: int = 3
    own: bool = True
    """The site between has rows, too."""
    near_mbit: float = 20.0
    far_mbit: float = 2.0

    def streams(self) -> list[Stream]:
        """One for each leaf, then that of the site between."""
        return [Stream(self.load, seed, names=NAMES) for seed in range(self.leaves + self.own)]

    def windows(self, seconds: int) -> range:
        """Those that count: the first warms up."""
        return range(1, seconds // self.load.window_s)


class SenderBetween(Sender):
    """The task of the site between: its input comes from elsewhere, too."""

    reads_from = "leaf"


@dataclass(slots=True)
class _Events:
    """What happens, by time."""

    waiting: list[tuple[float, int, int, object]] = field(default_factory=list)
    count: int = 0

    def at(self, at_s: float, index: int, what: object) -> None:
        self.count += 1
        heapq.heappush(self.waiting, (at_s, self.count, index, what))


@dataclass(frozen=True, slots=True)
class _Epoch:
    """Rows and a watermark that reach a task: of its own source, or from a leaf, with the size of what came."""

    table: pa.Table | None
    watermark_us: int
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Credit:
    """The reader has stored what the site between sent."""

    size_bytes: int


_TICK = -1
"""In the place of a task's number: the site between looks again, where nothing comes."""


def delay_as_written(tree: Tree, *, seconds: int) -> float:
    """The mean delay where every site sends each epoch to the reader, all over the far wire."""
    far = _wire(tree.far_mbit)
    streams = tree.streams()
    senders = [Sender(tree.load, seed, far, None, SendPool()) for seed in range(len(streams))]
    epochs = [
        (stream.epoch(number), sender)
        for number in range(seconds + 5)
        for stream, sender in zip(streams, senders, strict=True)
    ]
    for (at_s, table, watermark_us), sender in sorted(epochs, key=lambda item: item[0][0]):
        list(sender.publish(table, at_s, watermark_us))
    windows = tree.windows(seconds)
    ends = [(max(s.stored_s[window] for s in senders), (window + 1) * tree.load.window_s) for window in windows]
    return sum(stored_s - end_s for stored_s, end_s in ends) / len(windows)


def simulated_tree(tree: Tree, *, seconds: int, early: bool = True) -> tuple[Outcome, int]:
    """What the site between sends, and when it is stored at the reader; and how much all other sites send to it."""
    now = 0.0
    events = _Events()
    near, far = Outbound(lambda: now), Outbound(lambda: now)
    leaves = [
        Sender(tree.load, seed, _wire(tree.near_mbit), near, SendPool(near if early else None), to=BETWEEN)
        for seed in range(tree.leaves)
    ]
    between = SenderBetween(tree.load, tree.leaves, _wire(tree.far_mbit), far, SendPool(far if early else None))
    for index, stream in enumerate(tree.streams()):
        for number in range(seconds + 5):
            at_s, table, watermark_us = stream.epoch(number)
            events.at(at_s, index, _Epoch(table, watermark_us))
    for second in range(0 if tree.own else seconds + 5):
        events.at(second, _TICK, None)
    heard_us = dict.fromkeys(range(tree.leaves + tree.own), -1)
    while events.waiting:
        now, _, index, what = heapq.heappop(events.waiting)
        if isinstance(what, _Credit):
            assert between.call is not None
            between.call.stored(what.size_bytes)
            continue
        if isinstance(what, _Epoch):
            if index < tree.leaves and what.size_bytes is None:
                leaf = leaves[index]
                for stored_s, size_bytes in leaf.step(what.table, what.watermark_us, now):
                    events.at(stored_s, index, _Epoch(leaf.departed, what.watermark_us, size_bytes))
                continue
            heard_us[index] = max(heard_us[index], what.watermark_us)
            if what.size_bytes:
                call = leaves[index].call
                assert call is not None
                call.stored(what.size_bytes)
        table = what.table if isinstance(what, _Epoch) else None
        lowest_us = min(heard_us.values())
        for stored_s, size_bytes in between.step(table, lowest_us if lowest_us >= 0 else None, now):
            events.at(stored_s, index, _Credit(size_bytes))
        for leaf in leaves:
            near.goes_on(BETWEEN, leaf.log.id, between.departures.onward_s(between.held))
    windows = tree.windows(seconds)
    return between.outcome(windows), sum(leaf.outcome(windows).sent_bytes for leaf in leaves)


def least_between(tree: Tree, *, seconds: int) -> int:
    """The least that the site between has to send."""
    return least_bytes_of(tree.streams(), tree.load, seconds=seconds)


def least_of_leaves(tree: Tree, *, seconds: int) -> int:
    """The least that all leaves together have to send."""
    streams = tree.streams()[: tree.leaves]
    return sum(least_bytes_of([stream], tree.load, seconds=seconds) for stream in streams)


def _rate(mbit_per_s: float) -> float:
    return mbit_per_s * 1e6 / 8 * WIRE_SHARE


def _wire(mbit_per_s: float) -> Wire:
    return Wire(lambda at_s: _rate(mbit_per_s))
