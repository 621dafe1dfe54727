"""Streams with the columns of `orders` whose rows a round makes itself: computed at the sites, or pushed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

import selat
from tests.e2e.dataset import ORDERS, SITES, START, order
from tests.e2e.pushing import PATIENCE
from tests.soak.draw import BEATS
from tests.soak.plan import Plan

COLUMNS = "id BIGINT, ts TIMESTAMP, product STRING, quantity INT, price DOUBLE, fee DECIMAL(10,2), express BOOLEAN"

GENERATED_ROWS = 1200
GENERATED_PER_S = 40
"""Thirty seconds of rows."""

BEAT_S = 0.25
BEAT_SPAN = timedelta(seconds=2)
"""The event time of a beat."""
BEAT_ROWS = 6
DELAY_BEATS = 40
"""The watermark's delay, shorter than any nap. Producers go from beat to beat together, so no row is late by itself. On
a busy machine, a source may seem idle while its next epoch is computed; the delay leaves ten seconds for that.
"""
WAKING_S = 3.0
"""The time after a producer woke in which nothing breaks, and nothing else is pushed."""
IDLE_TIMEOUT = "2 seconds"
"""Shorter than any nap."""


def generator_ddl(name: str, start: datetime) -> str:
    """The DDL of a generated stream. Columns are the row's number or constants of the site, so the rows are known."""
    bindings = ", ".join(
        f"AT {site} WITH ('column.product' = 'constant({_product(site)})', 'column.express' = "
        f"'constant({_express(site)})')"
        for site in SITES
    )
    return (
        f"CREATE STREAM {name} ({COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL '3 seconds') WITH ("
        f"'connector' = 'generator', 'rows' = '{GENERATED_ROWS}', 'rows_per_second' = '{GENERATED_PER_S}', "
        f"'start' = '{start:%Y-%m-%dT%H:%M:%SZ}', 'column.id' = 'sequence', 'column.quantity' = 'sequence', "
        f"'column.price' = 'sequence', 'column.fee' = 'constant(2.50)') {bindings}"
    )


def generated(start: datetime) -> pa.Table:
    """The rows of that stream, with their site."""
    return _with_sites((site, [_generated(site, start, number) for number in range(GENERATED_ROWS)]) for site in SITES)


def _generated(site: str, start: datetime, number: int) -> dict[str, object]:
    return {
        "id": number,
        "ts": start + timedelta(seconds=1) / GENERATED_PER_S * number,
        "product": _product(site),
        "quantity": number,
        "price": float(number),
        "fee": Decimal("2.50"),
        "express": _express(site) == "true",
    }


def _product(site: str) -> str:
    return f"p{SITES.index(site)}"


def _express(site: str) -> str:
    return "true" if site == "eu" else "false"


def push_ddl(name: str) -> str:
    bindings = ", ".join(f"AT {site}" for site in SITES)
    return (
        f"CREATE STREAM {name} ({COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL "
        f"'{DELAY_BEATS * BEAT_SPAN.total_seconds():g} seconds') "
        f"WITH ('connector' = 'push', 'idle_timeout' = '{IDLE_TIMEOUT}') {bindings}"
    )


def pushed(plan: Plan) -> pa.Table:
    """All rows that the producers of the plan send, with their site."""
    return _with_sites(
        (site, [row for beat in range(BEATS) if not asleep(plan, site, beat) for row in _pushed(plan, site, beat)])
        for site in SITES
    )


def asleep(plan: Plan, site: str, beat: int) -> bool:
    return any(nap.covers(site, beat) for nap in plan.naps)


def _pushed(plan: Plan, site: str, beat: int) -> list[dict[str, object]]:
    """The rows of a beat, always the same; their order in time is random."""
    rng = random.Random(f"{plan.seed} {site} {beat}")
    first = SITES.index(site) * 1_000_000 + beat * BEAT_ROWS
    begin_us = beat * BEAT_SPAN // timedelta(microseconds=1)
    span_us = BEAT_SPAN // timedelta(microseconds=1)
    return [order(rng, first + n, begin_us + rng.randrange(span_us)) for n in range(BEAT_ROWS)]


def _with_sites(rows: Iterable[tuple[str, list[dict[str, object]]]]) -> pa.Table:
    return pa.concat_tables(
        pa.Table.from_pylist(found, ORDERS).append_column("site", pa.array([site] * len(found), pa.string()))
        for site, found in rows
    )


@dataclass
class Producers:
    """Pushes the rows of a plan from three sites, beat by beat, on a thread of its own.

    The next beat begins once the rows of all awake producers are on disk. A row of a source that counts as idle
    is late by definition when the others go on before it arrives; so a producer wakes inside `calm`, in which nothing
    breaks, and after `caught_up` has seen that results went on without it.
    """

    address: str
    stream: str
    plan: Plan
    calm: Callable[[], AbstractContextManager[None]]
    caught_up: Callable[[datetime, frozenset[str]], None]
    """Waits until the queries that read the stream at one of the sites have a watermark past that instant."""
    stop: threading.Event = field(default_factory=threading.Event)
    beat: int = 0
    naps: int = 0
    """The number of naps that ended after the queries had gone on without the producer."""
    failure: BaseException | None = None

    def run(self) -> None:
        """Push everything and end the stream. An error ends it, and is kept in `failure`."""
        try:
            with selat.connect(self.address, reconnect=PATIENCE) as client:
                producers = {site: self._producer(client, site) for site in SITES}
                for self.beat in range(BEATS):
                    if self.stop.wait(BEAT_S):
                        return
                    self._restart(client, producers)
                    self._push(producers)
                for producer in producers.values():
                    producer.finish()
        except BaseException as error:
            self.failure = error
            raise

    def _producer(self, client: selat.Client, site: str) -> selat.Producer:
        return client.push(self.stream, site, producer_id=f"producer-{site}", first_sequence=1)

    def _restart(self, client: selat.Client, producers: dict[str, selat.Producer]) -> None:
        for restart in self.plan.restarts:
            if restart.beat == self.beat:
                producers[restart.site] = self._producer(client, restart.site)
                for beat in range(self.beat):
                    self._send(producers[restart.site], beat)

    def _push(self, producers: dict[str, selat.Producer]) -> None:
        waking = [nap for nap in self.plan.naps if nap.beat + nap.beats == self.beat]
        if not waking:
            self._beat(producers)
            return
        with self.calm():
            awake = frozenset(site for site in SITES if not asleep(self.plan, site, self.beat - 1))
            self.caught_up(START + (self.beat - DELAY_BEATS - 1) * BEAT_SPAN, awake)
            self.naps += len(waking)
            self._beat(producers)
            self.stop.wait(WAKING_S)

    def _beat(self, producers: dict[str, selat.Producer]) -> None:
        for producer in producers.values():
            self._send(producer, self.beat)
        for producer in producers.values():
            producer.flush()

    def _send(self, producer: selat.Producer, beat: int) -> None:
        if not asleep(self.plan, producer.site, beat):
            producer.send(pa.Table.from_pylist(_pushed(self.plan, producer.site, beat), ORDERS))


def seconds_from_now(seconds: int) -> datetime:
    """A whole second, so many seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)
