"""A simulated link, and combining tasks that send over it: bytes and delays without processes and without waiting."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.values.stages import StageKind
from site_agent.channels.codec import encode
from site_agent.channels.log import ChannelLog
from site_agent.exchange.outbound import Outbound, OutboundCall
from site_agent.tasks.departures import Departures
from site_agent.tasks.held import HeldGroups, sorted_by_key, together, without_numbers
from site_agent.tasks.pool import SendPool
from site_agent.tasks.spec import InputSpec, TaskSpec, ViewSpec, WindowSpec

READER = "us"
WATERMARK_DELAY_S = 2.0
LATENCY_S = 0.1
SOURCE_S, JOB_S, STORE_S = 0.15, 0.1, 0.13
"""What the source's epoch takes, the combining task's, and storing at the reader."""
OVERHEAD_BYTES = 60
"""Of an epoch on the wire, beside its payload."""
TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Load:
    """The rows of a stream at one site."""

    window_s: int
    keys: int
    rows_per_s: int
    zipf: float = 0.0
    """The exponent; 0: all keys are equal."""
    phase_s: float = 0.5
    """When its epochs are, within each second."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one way to send, over the windows that count."""

    sent_bytes: int
    delay_s: float
    """Of the mean window, from its end until it is stored where it is read."""


@dataclass(slots=True)
class Wire:
    """Packets one after the other, at a rate that may change."""

    bytes_per_s: Callable[[float], float]
    free_s: float = 0.0

    def send(self, size_bytes: int, now_s: float) -> float:
        """When the last byte is stored at the reader."""
        at_s, left = max(self.free_s, now_s), float(size_bytes)
        while left > 0:
            step_s = min(0.05, left / self.bytes_per_s(at_s))
            left -= step_s * self.bytes_per_s(at_s) + 1e-6
            at_s += step_s
        self.free_s = at_s
        return at_s + LATENCY_S + STORE_S


@dataclass(slots=True)
class SentEpochs:
    """A channel, as far as the pool and departures look at it."""

    id: str
    consumers: tuple[str, ...] = ()
    sizes: list[int] = field(default_factory=list)
    first_epoch: int = 0

    @property
    def epochs(self) -> SentEpochs:
        return self

    @property
    def readers(self) -> SentEpochs:
        return self

    def bytes_from(self, epoch: int) -> int:
        return sum(self.sizes[epoch:])


class Stream:
    """Epochs of a second: rows by window and key, and the watermark after them.

    Streams of other seeds have the same keys where they are named from the same seed.
    """

    def __init__(self, load: Load, seed: int, *, names: int | None = None) -> None:
        self._load = load
        self._random = np.random.default_rng(seed)
        self._newest_s = -1.0
        naming = self._random if names is None else np.random.default_rng(names)
        self._order = naming.permutation(load.keys)
        numbers = np.cumsum(naming.integers(1, 20, load.keys))
        self._names = pc.binary_join_element_wise(
            "cust-", pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 8, "0"), ""
        )
        weights = 1 / np.arange(1, load.keys + 1) ** load.zipf
        self._shares = np.cumsum(weights / weights.sum())

    def epoch(self, number: int) -> tuple[float, pa.Table, int]:
        """When it is published, its partials, and its watermark."""
        load, draw = self._load, self._random
        begin_s = number - 1 + load.phase_s
        events_s = np.maximum(
            0.0, begin_s + draw.random(load.rows_per_s) - np.minimum(draw.exponential(0.3, load.rows_per_s), 1.9)
        )
        ranks = np.minimum(np.searchsorted(self._shares, draw.random(load.rows_per_s)), load.keys - 1)
        keys, windows = self._order[ranks], (events_s // load.window_s).astype(np.int64)
        groups, counts = np.unique(windows * load.keys + keys, return_counts=True)
        self._newest_s = max(self._newest_s, float(events_s.max()))
        table = pa.table(
            {
                "_window_start": pa.array(groups // load.keys * load.window_s * 1_000_000, TIMESTAMP),
                "k": self._names.take(pa.array(groups % load.keys)),
                "n": pa.array(counts, pa.int64()),
                "_group": pa.array(groups, pa.int64()),
            }
        )
        return begin_s + 1 + SOURCE_S, table, int((self._newest_s - WATERMARK_DELAY_S) * 1e6)


class Sender:
    """A combining task without Spark, disk and event loop, or one that does not combine."""

    reads_from = "eu"

    def __init__(
        self, load: Load, seed: int, wire: Wire, outbound: Outbound | None, pool: SendPool, *, to: str = READER
    ) -> None:
        self.load, self.wire = load, wire
        self.log = SentEpochs(f"q{seed}.c1.eu", (to, "eu"))
        length_us = load.window_s * 1_000_000
        window = WindowSpec("_window_start", length_us, length_us, (ViewSpec("input"),))
        delay_us = int(WATERMARK_DELAY_S * 1e6)
        spec = TaskSpec(
            self.log.id,
            "q",
            "c1",
            StageKind.COMBINE,
            "",
            timedelta(seconds=1),
            inputs=(InputSpec("q.s1.eu", self.reads_from, "input", event_delay_us=delay_us),),
            window=window,
        )
        self.held = HeldGroups(window)
        self.departures = Departures(spec, "eu", cast(ChannelLog, self.log), pool)
        self.call: OutboundCall | None = outbound.call(to, self.log.id, 0) if outbound is not None else None
        self.closed_us = 0
        self.departed: pa.Table | None = None
        """The rows that left last, with their numbers."""
        self.stored_s: dict[int, float] = {}
        self.sent_bytes: dict[int, int] = {}

    def publish(self, rows: pa.Table | None, now_s: float, watermark_us: int) -> Iterator[tuple[float, int]]:
        """When it is stored, and how large it is."""
        size_bytes, self.departed = 0, rows
        if rows is not None and rows.num_rows:
            rows = without_numbers(rows)
            size_bytes = len(encode(rows).payload)
            self.departures.left(rows.num_rows, size_bytes)
            share = size_bytes / rows.num_rows
            starts = rows["_window_start"].cast(pa.int64()).to_numpy() // 1_000_000 // self.load.window_s
            for window, count in zip(*np.unique(starts, return_counts=True), strict=True):
                self.sent_bytes[int(window)] = self.sent_bytes.get(int(window), 0) + int(share * count) + OVERHEAD_BYTES
        if self.call is not None:
            self.call.sent(len(self.log.sizes), size_bytes)
        self.log.sizes.append(size_bytes)
        stored_s = self.wire.send(size_bytes + OVERHEAD_BYTES, now_s)
        before, self.closed_us = self.closed_us // 1_000_000 // self.load.window_s, max(self.closed_us, watermark_us)
        for window in range(before, self.closed_us // 1_000_000 // self.load.window_s):
            self.stored_s[window] = stored_s
        yield stored_s, size_bytes

    def step(self, table: pa.Table | None, watermark_us: int | None, now_s: float) -> Iterator[tuple[float, int]]:
        """What a combining task does at an epoch of its input."""
        self.held.add(table)
        self.departures.came(self.held, watermark_us, now_s)
        if self.held.crosses_boundary(watermark_us):
            assert watermark_us is not None
            closed = one_of_each(self.held.closing(watermark_us))
            self.held.advance(watermark_us)
            yield from self.publish(closed, now_s + JOB_S, watermark_us)
        else:
            due = list(self.departures.due(self.held, now_s))
            taken = [self.held.take(departure.end_us, departure.groups) for departure in due]
            if taken:
                yield from self.publish(one_of_each(together(taken)), now_s + JOB_S, watermark_us or 0)
        self.departures.tell(self.held, now_s)

    def outcome(self, windows: Sequence[int]) -> Outcome:
        delays = [self.stored_s[window] - (window + 1) * self.load.window_s for window in windows]
        return Outcome(sum(self.sent_bytes[window] for window in windows), sum(delays) / len(delays))


def simulated(
    loads: Sequence[Load], bytes_per_s: Callable[[float], float], *, combine: bool, seconds: int, early: bool = True
) -> list[Outcome]:
    """What each of the queries sends over one link and when; the first window of each warms up."""
    now = 0.0
    outbound = Outbound(lambda: now)
    pool = SendPool(outbound if early else None)
    wire = Wire(bytes_per_s)
    tasks = [Sender(load, seed, wire, outbound, pool) for seed, load in enumerate(loads)]
    streams = [Stream(load, seed) for seed, load in enumerate(loads)]
    events: list[tuple[float, int, int, int]] = []
    epochs = {}
    for index, stream in enumerate(streams):
        for number in range(seconds + 5):
            at_s, table, watermark_us = stream.epoch(number)
            epochs[index, number] = table, watermark_us
            heapq.heappush(events, (at_s, 0, index, number))
    while events:
        now, kind, index, value = heapq.heappop(events)
        task = tasks[index]
        if kind:
            assert task.call is not None
            task.call.stored(value)
            continue
        table, watermark_us = epochs.pop((index, value))
        given = task.step(table, watermark_us, now) if combine else task.publish(table, now, watermark_us)
        for stored_s, size_bytes in given:
            if size_bytes:
                heapq.heappush(events, (stored_s, 1, index, size_bytes))
    return [task.outcome(range(1, seconds // task.load.window_s)) for task in tasks]


def least_bytes(load: Load, seed: int, *, seconds: int) -> int:
    """Each group of the windows that count once, in one batch for each window."""
    return least_bytes_of([Stream(load, seed)], load, seconds=seconds)


def least_bytes_of(streams: Sequence[Stream], load: Load, *, seconds: int) -> int:
    """The same, of several streams together."""
    rows = pa.concat_tables([stream.epoch(number)[1] for stream in streams for number in range(seconds + 5)])
    total = 0
    for window in range(1, seconds // load.window_s):
        start = pa.scalar(window * load.window_s * 1_000_000, pa.int64())
        one = one_of_each(rows.filter(pc.equal(rows["_window_start"].cast(pa.int64()), start)))
        assert one is not None
        sent = without_numbers(one)
        total += len(encode(sent).payload) + OVERHEAD_BYTES
    return total


def one_of_each(rows: pa.Table | None) -> pa.Table | None:
    if rows is None or not rows.num_rows:
        return rows
    made = rows.group_by(["_window_start", "k", "_group"]).aggregate([("n", "sum")])
    return sorted_by_key(
        made.select(["_window_start", "k", "n_sum", "_group"]).rename_columns(["_window_start", "k", "n", "_group"])
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """A way to send, beside the least bytes and the delay of sending each epoch."""

    over_least: float
    over_delay: float


def compared(
    loads: Sequence[Load], mbit_per_s: float | Callable[[float], float], *, seconds: int, early: bool = True
) -> Compared:
    """Over all queries of a link."""
    given = mbit_per_s if callable(mbit_per_s) else lambda at_s: mbit_per_s

    def rate(at_s: float) -> float:
        return given(at_s) * 1e6 / 8 * 0.956

    ways = [simulated(loads, rate, combine=combine, seconds=seconds, early=early) for combine in (False, True)]
    today, found = ways
    least = sum(least_bytes(load, seed, seconds=seconds) for seed, load in enumerate(loads))
    return Compared(
        sum(one.sent_bytes for one in found) / least,
        sum(one.delay_s for one in found) / sum(one.delay_s for one in today),
    )


def aligned(load: Load, count: int) -> list[Load]:
    """So many queries whose windows end together, and whose epochs do not."""
    return [replace(load, phase_s=(0.5 + number / count) % 1) for number in range(count)]
