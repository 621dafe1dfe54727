"""What a round runs while things break: queries over replayed files, one into a sink, one over pushed rows."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import selat
from tests.e2e.cluster import check_against_oracle, submit
from tests.e2e.dataset import SITES
from tests.e2e.faults import Queries, Scene
from tests.e2e.oracle import assert_same, connect, expected, rows_of
from tests.e2e.pushing import PATIENCE, WINDOWED_ORACLE, Writer, ddl, windowed
from tests.e2e.pushing import expected as expected_of_pushed
from tests.e2e.queries import CASES
from tests.e2e.sinks import half_written, insert, written

CASE = {case.name: case for case in CASES}
FOLLOWED = tuple(CASE[name] for name in ("projection", "all_aggregates", "join", "top_k", "window_left_join"))
INSERTED = CASE["projection"]
PUSH_PAUSE_S = 0.4
"""Forty batches in sixteen seconds, about as long as the replay of the files."""


@dataclass
class Work:
    """A round's queries; the names of its stream and sink are the round's own."""

    client: selat.Client
    scene: Scene
    number: int
    directory: Path
    queries: dict[str, selat.Query] = field(default_factory=dict)
    writers: list[Writer] = field(default_factory=list)
    finished: threading.Event = field(default_factory=threading.Event)

    @property
    def stream(self) -> str:
        return f"pushed_{self.number}"

    @property
    def sink(self) -> str:
        return f"rows_{self.number}"

    @property
    def output(self) -> Path:
        return self.directory / self.sink

    def start(self) -> Queries:
        """Submit everything; rows are pushed by threads of their own from now on."""
        self.queries = dict(submit(self.client, FOLLOWED))
        self.client.sql(
            f"CREATE SINK {self.sink} AT eu "
            f"WITH ('connector' = 'parquet', 'path' = '{self.output}', 'roll_interval' = '500 ms')"
        )
        self.queries["inserted"] = insert(self.client, self.sink, INSERTED.sql)
        self.client.sql(ddl(self.stream))
        pushed = self.client.sql(windowed(self.stream))
        assert isinstance(pushed, selat.Query)
        self.queries["pushed"] = pushed
        self._push()
        return self.queries

    def _push(self) -> None:
        address = self.scene.cluster.address
        self.writers = [
            Writer(address, n, site, self.stream, crashes=n == 1, pause_s=PUSH_PAUSE_S) for n, site in enumerate(SITES)
        ]
        for writer in self.writers:
            writer.go_on.set()
        threads = [threading.Thread(target=writer.run, daemon=True) for writer in self.writers]
        for thread in threads:
            thread.start()
        # After them: a thread that was not started cannot be waited for.
        threading.Thread(target=self._finish, args=(address, threads), daemon=True).start()

    def _finish(self, address: str, threads: Sequence[threading.Thread]) -> None:
        """When all rows are pushed, the stream ends, and with it its query."""
        with selat.connect(address, reconnect=PATIENCE) as client:
            for thread in threads:
                thread.join()
            for site in SITES:
                client.push(self.stream, site).finish()
        self.finished.set()

    def check(self) -> int:
        """Everything must be the oracle's answer. How many rows there were."""
        rows = check_against_oracle(self.scene.dataset, FOLLOWED, self.queries)
        return rows + self._check_inserted() + self._check_pushed()

    def _check_inserted(self) -> int:
        info = self.queries["inserted"].wait()
        assert info.state is selat.QueryState.FINISHED, f"inserted: {info.state.value} {info.reason}"
        db = connect(self.scene.dataset)
        rows = written(db, self.output)
        assert_same(rows, expected(db, INSERTED.oracle), "inserted")
        assert half_written(self.output) == [], "inserted: files that are not committed"
        return len(rows)

    def _check_pushed(self) -> int:
        assert [writer.failure for writer in self.writers] == [None] * len(SITES)
        query = self.queries["pushed"]
        rows = rows_of(query.results().arrow())
        info = query.info()
        assert (info.state, info.rows_late) == (selat.QueryState.FINISHED, 0), (
            f"pushed: {info.state.value} {info.reason}"
        )
        assert_same(rows, expected_of_pushed(WINDOWED_ORACLE, self.writers), "pushed")
        return len(rows)

    def clear(self) -> None:
        """Forget the round, so that the next one's recovery does not grow with the rounds."""
        self.client.drop(self.stream)
        self.client.drop(self.sink)
        shutil.rmtree(self.output, ignore_errors=True)
