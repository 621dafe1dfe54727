"""One run: a cluster, the declarations and queries through the public client, the results, the proof."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rich.console import Console

import selat
from selat.demo import oracle
from selat.demo.dataset import Dataset, QueryFile, prepare, queries
from selat.demo.errors import DemoError
from selat.demo.outcome import Outcome, QueryOutcome
from selat.demo.progress import Snapshot, display
from selat.demo.readers import Reader
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from selat.dev.state import DataDirectory, DataLock
from selat.errors import Detail

TIME_LIMIT = timedelta(seconds=170)
"""The limit for a whole run; a longer one has failed."""

_SAMPLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """How to run the demo."""

    root: Path
    speed: float
    console: Console
    """For progress."""
    started_at: float
    """Monotonic time at which the user asked for it."""

    def go(self) -> Outcome:
        """Run the demo. Raises DemoError when it takes too long, SelatError when the cluster fails."""
        self._say("writing the flights of 2013 to " + str(self.root))
        dataset = prepare(self.root, speed=self.speed)
        options = ClusterOptions(allow_paths=(self.root,))
        cluster = DevCluster(dataset.topology, _emptied(self.root / "cluster"), options, report=self._say)
        self._say("starting a master and the agents of " + ", ".join(cluster.sites))
        with cluster, selat.connect(cluster.address, tls_dir=cluster.tls_dir) as client:
            return self._measured(client, dataset)

    def _measured(self, client: selat.Client, dataset: Dataset) -> Outcome:
        for _ in client.script(dataset.declare_sql):
            pass
        # Each airport sends a day's groups once, not with each epoch that has rows of it.
        client.sql("SET combine = on")
        readers = [self._submitted(client, query) for query in queries()]
        try:
            links = self._follow(client, readers).links
        finally:
            for reader in readers:
                reader.close()
        self._say("asking DuckDB")
        return Outcome(
            queries=_judged(readers, dataset),
            links=links,
            raw_bytes=dataset.raw_bytes,
            seconds_to_first_result=_first_at(readers) - self.started_at,
            seconds=self._elapsed_s(),
        )

    def _submitted(self, client: selat.Client, query: QueryFile) -> Reader:
        outcome = client.sql(query.sql, name=query.name)
        if not isinstance(outcome, selat.Query):
            raise DemoError(f"{query.name}.sql is not a query")
        self._say(f"submitted {query.name} as {outcome.id}")
        return Reader(query.name, outcome)

    def _follow(self, client: selat.Client, readers: Sequence[Reader]) -> Snapshot:
        """Wait until all results were read; returns the last snapshot."""
        with display(self.console) as shown:
            while not all(reader.over for reader in readers):
                shown.show(self._snapshot(client, readers))
                if self._elapsed_s() > TIME_LIMIT.total_seconds():
                    late = ", ".join(reader.name for reader in readers if not reader.over)
                    hint = "is the machine busy? A lower --speed asks less of it at a time"
                    raise DemoError(f"not over in {TIME_LIMIT.total_seconds():g} s: {late}", detail=Detail(hint=hint))
                time.sleep(_SAMPLE_S)
            last = self._snapshot(client, readers)
            shown.end(last)
            return last

    def _snapshot(self, client: selat.Client, readers: Sequence[Reader]) -> Snapshot:
        return Snapshot(self._elapsed_s(), [reader.query.info() for reader in readers], client.links())

    def _elapsed_s(self) -> float:
        return time.monotonic() - self.started_at

    def _say(self, text: str) -> None:
        self.console.print(f"{self._elapsed_s():.0f} s: {text}", highlight=False, markup=False, soft_wrap=True)


def _emptied(data: Path) -> Path:
    """A data directory without the files of an earlier run. Raises DevError when a cluster is running in it."""
    DataLock(DataDirectory(data)).take().release()
    shutil.rmtree(data)
    return data


def _judged(readers: Sequence[Reader], dataset: Dataset) -> tuple[QueryOutcome, ...]:
    by_name = {reader.name: reader for reader in readers}
    with oracle.connect(dataset.root) as db:
        return tuple(_judge(by_name[q.name], oracle.expected(db, q.oracle)) for q in queries())


def _judge(reader: Reader, wanted: Sequence[oracle.Row]) -> QueryOutcome:
    reading = reader.reading
    ended_at = reading.ended_at if reading.ended_at is not None else time.monotonic()
    return QueryOutcome(
        name=reader.name,
        rows=len(reading.rows),
        seconds=ended_at - reader.submitted_at,
        difference=reading.error or oracle.difference(reading.rows, wanted),
    )


def _first_at(readers: Sequence[Reader]) -> float:
    """When the first row came. Raises DemoError when there was no row."""
    times = [reader.reading.first_at for reader in readers if reader.reading.first_at is not None]
    if not times:
        errors = "; ".join(reader.reading.error for reader in readers if reader.reading.error)
        raise DemoError(f"no query gave a result: {errors or 'all are empty'}")
    return min(times)
