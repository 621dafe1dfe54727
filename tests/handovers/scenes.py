"""The stream and the queries of each kind of handover, and how it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

import selat
from selat.client.moves import TaskMove
from tests.e2e import oracle
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene
from tests.e2e.pushing import ORDERS_AT, PATIENCE, declare_pushed, only_pushed, orders_of
from tests.e2e.test_sharing import COUNTS_CASE, HAVING_CASE, STREAM
from tests.grammar.text import Both
from tests.handovers.plan import Kind
from tests.soak.asking import patiently, submit

READER, SOURCE = "us", "eu"
"""The site of the results, and one with rows."""
_TOP = "row_number() OVER (PARTITION BY {} ORDER BY n DESC, product) <= 2"
TOP_CASE = Both(
    f"{COUNTS_CASE.selat} QUALIFY {_TOP.format('window')}",
    f"SELECT * FROM ({COUNTS_CASE.oracle}) QUALIFY {_TOP.format('s')}",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The queries of a kind, and which of their tasks hands over."""

    queries: tuple[Both, ...]
    stage: str
    """The first letter of the name of the stage whose task it is; `d`: the derived task."""
    of: int = -1
    """The number of the query that is asked."""
    settings: str = "SET sharing = 'no-share'"


_SHARED = "SET sharing = 'max-share'"
SHAPES: Mapping[Kind, Shape] = {
    Kind.SHIPPED: Shape((COUNTS_CASE,), "m"),
    Kind.LATE: Shape((COUNTS_CASE,), "m"),
    Kind.FINAL: Shape((TOP_CASE,), "f", settings="SET sharing = 'net'; SET merge_parallelism = 2"),
    Kind.SPLIT: Shape((TOP_CASE,), "m", settings="SET sharing = 'net'; SET merge_parallelism = 2"),
    Kind.JOIN: Shape((TOP_CASE,), "m", settings="SET sharing = 'net'; SET merge_parallelism = 2"),
    Kind.DERIVE: Shape((COUNTS_CASE, HAVING_CASE), "d", settings=_SHARED),
    Kind.SHARED: Shape((COUNTS_CASE, COUNTS_CASE), "m", of=0, settings=_SHARED),
    Kind.ALONE: Shape((COUNTS_CASE, COUNTS_CASE), "m", settings=_SHARED),
    Kind.SWAP: Shape((COUNTS_CASE,), "m", settings="SET sharing = 'net'"),
    Kind.TOGETHER: Shape((COUNTS_CASE, COUNTS_CASE), "m", settings=_SHARED),
}


class Stream:
    """A stream that two sites push, in parts, and the queries over it."""

    def __init__(self, scene: Scene, client: selat.Client, name: str, kind: Kind) -> None:
        self._client = client
        self.name = name
        self.shape = SHAPES[kind]
        self._db = oracle.connect(scene.dataset)
        declare_pushed(client, name)
        settings = f"SET merge_parallelism = 1; {self.shape.settings}; "
        self.queries = [
            submit(client, settings + both.selat.replace(STREAM, name), f"{name}_{number}")
            for number, both in enumerate(self.shape.queries)
        ]
        self._rows = {site: orders_of(self._db, site) for site in ORDERS_AT}
        self._sender = selat.connect(scene.cluster.address, reconnect=PATIENCE)
        self._producers = {site: self._sender.push(name, site) for site in ORDERS_AT}
        self._sent = 0

    def push(self, part: int, parts: int) -> None:
        """Send one of so many parts of the rows; returns once they have arrived."""
        for site, rows in self._rows.items():
            first, until = rows.num_rows * part // parts, rows.num_rows * (part + 1) // parts
            self._producers[site].send(rows.slice(first, until - first))
            self._sent += until - first
        for producer in self._producers.values():
            producer.flush()

    def is_read(self) -> bool:
        """Return whether the sources have read all that was sent."""
        return patiently(self.queries[0].info).rows_in >= self._sent

    def until_rows_are_out(self) -> None:
        wait_until(lambda: all(query.info().rows_out > 0 for query in self.queries))

    def place(self) -> tuple[selat.Query, str, str]:
        """Return the query that is asked, the task that hands over by its name in a query, and its site."""
        query = self.queries[self.shape.of]
        tasks = {task.task_id.partition(".")[2]: task for task in patiently(query.info).tasks}
        stage = self.shape.stage
        found = {name: task for name, task in tasks.items() if (".d" in name if stage == "d" else name[0] == stage)}
        name, task = min(found.items())
        return query, name, task.site

    def ask(self, kind: Kind, to_site: str) -> TaskMove:
        """Ask for the handover. A master that dies when it has stored the request refuses the same one afterwards."""
        query, name, _ = self.place()
        stage = name.partition(".")[0]
        asks: Mapping[Kind, Callable[[], TaskMove]] = {
            Kind.LATE: lambda: self._client.move_task(query.id, name, to_site, without_state=True),
            Kind.SPLIT: lambda: self._client.scale_stage(query.id, stage, 4, [to_site, READER]),
            Kind.JOIN: lambda: self._client.scale_stage(query.id, stage, 1, [to_site]),
            Kind.ALONE: lambda: self._client.move_task(query.id, stage, to_site, alone=True),
            Kind.TOGETHER: lambda: self._client.share_again(query.id, stage, to_site),
            Kind.SWAP: lambda: self._client.combine_query(query.id, f"{SOURCE} > {to_site}"),
        }
        try:
            return patiently(asks.get(kind, lambda: self._client.move_task(query.id, name, to_site)))
        except selat.StatementError as error:
            begun = patiently(lambda: self._client.moves(query.id))
            if error.code != "HANDOVER_REFUSED" or not begun:
                raise
            return begun[0]

    def now(self, move: TaskMove) -> TaskMove:
        """Return how far a handover has come."""
        moves = patiently(lambda: self._client.moves(move.query_id))
        return next(m for m in moves if (m.stage, m.asked_at) == (move.stage, move.asked_at))

    def finish(self) -> list[str]:
        """End the stream, and compare all results with the oracle's; returns the differences."""
        for producer in self._producers.values():
            producer.finish()
        self._sender.close()
        only_pushed(self._db)
        wrong = []
        for query, both in zip(self.queries, self.shape.queries, strict=True):
            table: pa.Table = query.results().arrow()
            info = patiently(query.info)
            try:
                oracle.assert_same(oracle.rows_of(table), oracle.expected(self._db, both.oracle), query.id)
                assert info.state is selat.QueryState.FINISHED, f"{query.id}: {info.state.value} {info.reason}"
                assert info.rows_late == 0, f"{query.id}: {info.rows_late} rows late"
            except AssertionError as error:
                wrong.append(str(error))
        return wrong

    def drop(self) -> None:
        patiently(lambda: self._client.drop(self.name, if_exists=True))
