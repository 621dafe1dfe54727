"""A merge goes from site to site while clients read and a sink writes: they notice nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import selat
from selat.client.moves import MoveStep, TaskMove
from tests.e2e import oracle
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene, kill
from tests.e2e.oracle import assert_same, expected, rows_of
from tests.e2e.pushing import ORDERS_AT, declare_pushed, only_pushed, orders_of
from tests.e2e.readers import Reader
from tests.e2e.sinks import half_written, insert, written
from tests.e2e.test_sharing import COUNTS, ORACLE_COUNTS, STREAM

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(900)]

ROUTE = ("eu", "us", "asia", "us")
PARTS = 16
"""The rows come in so many parts: each move needs some, more on a slow machine, and stands still without them."""


class Journey:
    """Two queries over a stream that the test pushes: a client reads one, the other writes into a sink.

    They share nothing, or else the merge of one that is the same.
    """

    def __init__(
        self, scene: Scene, client: selat.Client, name: str, directory: Path, *, sharing: str = "no-share"
    ) -> None:
        self._client = client
        self._name = name
        self._db = oracle.connect(scene.dataset)
        self._directory = directory
        declare_pushed(client, name)
        client.sql(f"SET sharing = '{sharing}'")
        text = COUNTS.replace(STREAM, name)
        client.sql(
            f"CREATE SINK sink_{name} AT asia "
            f"WITH ('connector' = 'parquet', 'path' = '{directory}', 'roll_interval' = '1 second')"
        )
        self.first = client.sql(text) if sharing == "max-share" else None
        read, self.writing = client.sql(text), insert(client, f"sink_{name}", text)
        assert isinstance(read, selat.Query)
        self.read = read
        self.reader = Reader(scene.cluster.address, self.read.id)
        self.reader.start()
        self._rows = {site: orders_of(self._db, site) for site in ORDERS_AT}
        self._producers = {site: client.push(name, site) for site in ORDERS_AT}
        self._sent = 0

    def push(self, part: int, parts: int) -> None:
        """Send one of so many parts of the rows, and wait until windows of it are out."""
        before = self.read.info().rows_out
        self._send(part, parts)
        wait_until(lambda: self.read.info().rows_out > before)

    def _send(self, part: int, parts: int) -> None:
        """Send one of so many parts of the rows; returns once they have arrived."""
        for site, rows in self._rows.items():
            first, until = rows.num_rows * part // parts, rows.num_rows * (part + 1) // parts
            self._producers[site].send(rows.slice(first, until - first))
            self._sent += until - first
        for producer in self._producers.values():
            # Only then it is known that they have arrived: an agent may have been killed since the last ones.
            producer.flush()

    def moved_meanwhile(self, begun: list[TaskMove], left: Iterator[int], parts: int) -> None:
        """Wait until these moves are over; of the parts that are left, one comes whenever windows have to close."""

        def are_over() -> bool:
            steps = [self._now(move).step for move in begun]
            if any(step in (MoveStep.STARTED, MoveStep.SEEDING) for step in steps) and (
                self.read.info().rows_in >= self._sent and (part := next(left, None)) is not None
            ):
                self._send(part, parts)
            return all(step.over for step in steps)

        wait_until(are_over)
        self.moved(begun)

    def move(self, site: str, *, without_state: bool = False) -> list[TaskMove]:
        """Have the merges of both queries go to a site, at the same time; returns their moves as they begin."""
        begun = []
        for query in (self.read, self.writing):
            here = next(task.site for task in query.info().tasks if task.stage_id == "m1")
            if here != site:
                begun.append(self._client.move_task(query.id, "m1", site, without_state=without_state))
        return begun

    def move_alone(self, query: selat.Query, site: str) -> TaskMove:
        """Have a query go on with a merge of its own in the place of the shared one."""
        return self._client.move_task(query.id, "m1", site, alone=True)

    def combine(self, tree: str) -> list[TaskMove]:
        """Have the sites of both queries combine over other sites, at the same time."""
        return [self._client.combine_query(query.id, tree) for query in (self.read, self.writing)]

    def merges(self) -> set[str]:
        """Return the tasks that merge for the two queries, with their sites."""
        tasks = [task for query in (self.read, self.writing) for task in query.info().tasks]
        return {f"{task.task_id} at {task.site}" for task in tasks if task.stage_id == "m1"}

    def moved(self, begun: list[TaskMove]) -> None:
        """Wait until these moves are over."""
        for move in begun:
            wait_until(lambda move=move: self._now(move).step.over)
            assert self._now(move).step is MoveStep.MOVED, self._now(move)

    def _now(self, move: TaskMove) -> TaskMove:
        return next(m for m in self._client.moves(move.query_id) if m.asked_at == move.asked_at)

    def finish(self) -> None:
        """End the stream, and compare what each reader got with the oracle's answer."""
        for producer in self._producers.values():
            producer.finish()
        only_pushed(self._db)
        wanted = expected(self._db, ORACLE_COUNTS)
        self.reader.join(timeout=120)
        assert self.reader.failed is None
        assert not self.reader.is_alive()
        assert_same(rows_of(self.reader.table), wanted, "the client that followed")
        assert_same(rows_of(self.read.results().arrow()), wanted, "a client that comes afterwards")
        info = self.writing.wait()
        assert info.state is selat.QueryState.FINISHED, info.reason
        assert_same(written(self._db, self._directory), wanted, "the sink")
        assert half_written(self._directory) == []
        self._old_cursors()
        self._client.drop(f"sink_{self._name}")
        self._client.drop(self._name)

    def _old_cursors(self) -> None:
        """Whoever goes on from a place that was reached before, or during, any move gets the rest, once."""
        count = len(self.reader.batches)
        for place in {0, count // 3, 2 * count // 3, count - 1}:
            rest = self.read.results(cursor=self.reader.cursors[place]).arrow()
            whole = pa.Table.from_batches(self.reader.batches[: place + 1])
            assert rows_of(pa.concat_tables([whole, rest])) == rows_of(self.reader.table), f"from batch {place} on"


def travelled(journey: Journey, during: Callable[[str], None] = lambda site: None) -> None:
    """Have the merges go all the way; no rows come while they move."""
    parts = len(ROUTE) + 1
    for number, site in enumerate(ROUTE):
        journey.push(number, parts)
        begun = journey.move(site)
        during(site)
        journey.moved(begun)
    journey.push(parts - 1, parts)
    journey.finish()


def test_readers_and_a_sink_notice_nothing_of_moves(calm: Scene, calm_client: selat.Client, tmp_path: Path) -> None:
    travelled(Journey(calm, calm_client, "moved", tmp_path / "sink"))


def test_a_merge_moves_without_state_while_rows_come(calm: Scene, calm_client: selat.Client, tmp_path: Path) -> None:
    journey = Journey(calm, calm_client, "moved_late", tmp_path / "sink")
    journey.push(0, 8)
    begun = journey.move("asia", without_state=True)
    for part in range(1, 7):
        journey.push(part, 8)
    journey.moved(begun)
    journey.push(7, 8)
    journey.finish()


@pytest.mark.parametrize("who", ["reader", "sink"])
def test_one_of_two_queries_goes_on_by_itself_and_shares_again_while_rows_come(
    calm: Scene, calm_client: selat.Client, tmp_path: Path, who: str
) -> None:
    journey = Journey(calm, calm_client, f"forked_{who}", tmp_path / "sink", sharing="max-share")
    query = journey.read if who == "reader" else journey.writing
    journey.push(0, PARTS)
    (shared,) = journey.merges()
    left = iter(range(1, PARTS))
    journey.moved_meanwhile([journey.move_alone(query, "asia")], left, PARTS)
    assert len(journey.merges()) == 2
    again = calm_client.share_again(query.id, "m1")
    assert again.shared_with == shared.partition(" ")[0]
    journey.moved_meanwhile([again], left, PARTS)
    with pytest.raises(selat.StatementError, match="which is shared"):
        calm_client.share_again(query.id, "m1")
    # The shared task may move, and so may the one that makes this query's epochs of it.
    assert isinstance(journey.first, selat.Query)
    journey.moved_meanwhile([calm_client.move_task(journey.first.id, "m1", "asia")], left, PARTS)
    journey.moved_meanwhile([calm_client.move_task(query.id, "m1", "eu")], left, PARTS)
    for part in left:
        journey.push(part, PARTS)
    journey.finish()
    assert isinstance(journey.first, selat.Query)
    assert rows_of(journey.first.results().arrow()) == rows_of(journey.reader.table)


def test_sites_combine_in_other_ways_while_rows_come(calm: Scene, calm_client: selat.Client, tmp_path: Path) -> None:
    journey = Journey(calm, calm_client, "recombined", tmp_path / "sink", sharing="net")
    left = iter(range(1, PARTS))
    journey.push(0, PARTS)
    for tree in ("off", "eu > asia", "off"):
        journey.moved_meanwhile(journey.combine(tree), left, PARTS)
        assert {task.stage_id for task in journey.read.info().tasks} >= {"s1", "c1", "m1"}
    for part in left:
        journey.push(part, PARTS)
    journey.finish()


@pytest.mark.long
@pytest.mark.kills
def test_nor_of_moves_with_restarts_between(isolated: Scene, isolated_client: selat.Client, tmp_path: Path) -> None:
    """The site that a task moves to is killed while it moves, and the master, too, every other time."""
    killed: list[str] = []

    def during(site: str) -> None:
        names = [f"agent-{site}", *(["master"] if len(killed) % 2 else [])]
        killed.append(site)
        kill(isolated.cluster, *names)

    travelled(Journey(isolated, isolated_client, "moved_and_killed", tmp_path / "sink"), during)
    assert killed == list(ROUTE)
