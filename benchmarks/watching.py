"""Queries with windows that are watched while something changes: when each window came, and its delay."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import selat
from benchmarks.report import median
from selat.errors import Detail, InvalidArgument
from selat.local.errors import DevError

EPOCH_S = 1.0
NORMAL = 2.0
"""A delay is normal up to this multiple of the median before the first change, and two epochs more."""
WARM_UP_WINDOWS = 3
"""Each query has delivered so many before links are made narrow..."""
WARM_UP_S = 180.0
"""...which takes no longer than this."""


@dataclass(slots=True)
class Watched:
    """A query whose rows have the end of their window, `e`, and a count, `n`; and when the last row of each came."""

    query: selat.Query
    arrived_s: dict[datetime, float] = field(default_factory=dict)
    counts: dict[datetime, list[int]] = field(default_factory=dict)
    """The counts in the rows of each window."""
    warm: threading.Event = field(default_factory=threading.Event)
    """It has delivered `WARM_UP_WINDOWS`."""
    reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        """Until the query is over, or the client is closed because something else has gone wrong."""
        with suppress(InvalidArgument), self.query.results() as results:
            for batch in results:
                now_s = time.time()
                for row in batch.batch.select(["e", "n"]).to_pylist():
                    self.arrived_s[row["e"]] = now_s
                    self.counts.setdefault(row["e"], []).append(row["n"])
                if len(self.arrived_s) >= WARM_UP_WINDOWS:
                    self.warm.set()


@dataclass(frozen=True, slots=True)
class Delay:
    """The delay of a window of one query. Times are seconds from the first change."""

    query: str
    end_s: float
    delay_s: float
    rows: int


def watch(client: selat.Client, sql: str) -> Watched:
    """Submit a query and read its results."""
    query = client.sql(sql)
    assert isinstance(query, selat.Query)
    return Watched(query)


def wait_for_windows(watched: Mapping[str, Watched]) -> None:
    """Return when every query has delivered some windows, or after a while."""
    end_s = time.monotonic() + WARM_UP_S
    for one in watched.values():
        one.warm.wait(max(0.0, end_s - time.monotonic()))


def sleep_until(at_s: float) -> None:
    """Return at an instant, in seconds since 1970: for measurements that last for a while."""
    time.sleep(max(0.0, at_s - time.time()))


def rates_of(client: selat.Client, stream: str, rows_per_s: float) -> Iterator[Sequence[tuple[float, float]]]:
    """Yield the instants from which the rates of a generated stream hold, in seconds since 1970, and the rates, by
    site; `rows_per_s` is the declared rate."""
    for binding in client.stream(stream).bindings:
        said = binding.options.get("rate_schedule")
        if said is None:
            yield [(0.0, rows_per_s)]
        else:
            yield [(since_us / 1e6, float(rate)) for since_us, rate in json.loads(said)]


def end(watched: Mapping[str, Watched]) -> None:
    """Cancel the queries; their last results are not waited for longer than a while."""
    for one in watched.values():
        one.query.cancel()
    for one in watched.values():
        # Its results end with it.
        one.reader.join(timeout=30)


def delays_of(watched: Mapping[str, Watched], begin_s: float) -> Iterator[Delay]:
    """All windows that came, by query and end."""
    for name, one in watched.items():
        for end, at_s in sorted(one.arrived_s.items()):
            yield Delay(name, end.timestamp() - begin_s, at_s - end.timestamp(), sum(one.counts[end]))


def normal_s(delays: Sequence[Delay], query: str) -> float:
    """The longest delay that counts as normal, from the windows before the first change.

    Raises:
        DevError: the query delivered none before it.
    """
    before = [one.delay_s for one in delays if one.query == query and one.end_s + one.delay_s < 0]
    if not before:
        raise DevError(
            f"query {query} delivered no window before the first change",
            detail=Detail(hint="this machine is too slow for the benchmark, or busy; a longer --settle may help"),
        )
    return NORMAL * median(before) + 2 * EPOCH_S
