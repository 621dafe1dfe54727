"""Overlapping queries that share operators: each result equals DuckDB's, whoever comes, goes, and owns what.

`SELAT_SHARING_SETS=50 SELAT_SEED=7 pytest tests/e2e/test_sharing.py` looks further.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import selat
from planner.graph.ids import TaskId
from selat.client.moves import MoveStep
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene, kill, stopped
from tests.e2e.oracle import assert_among, assert_same, connect, expected, rows_of
from tests.e2e.pushing import declare_pushed, only_pushed, orders_of
from tests.grammar.queries import queries
from tests.grammar.text import Both

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(3600)]

logger = logging.getLogger(__name__)

PATIENCE = timedelta(seconds=90)
SETS = int(os.environ.get("SELAT_SHARING_SETS", "0"))
STREAM = "live_orders"
REPLAY = "'mode' = 'replay', 'replay_speed' = '60'"
"""Five minutes of events in five seconds."""
COUNTS = (
    "SELECT window(ts, '10 seconds').start AS s, product, count(*) AS n, sum(quantity) AS q"
    f" FROM {STREAM} GROUP BY window(ts, '10 seconds'), product"
)
ORACLE_COUNTS = "SELECT w(ts, 10) AS s, product, count(*) AS n, sum(quantity) AS q FROM orders GROUP BY ALL"
HAVING = " HAVING count(*) > 3"
COUNTS_CASE = Both(COUNTS, ORACLE_COUNTS)
HAVING_CASE = Both(COUNTS + HAVING, ORACLE_COUNTS + HAVING)
FEW_CASE = Both(f"{COUNTS} HAVING count(*) > 9", f"{ORACLE_COUNTS} HAVING count(*) > 9")
"""Has the sources of the others, and lacks groups that they need."""


def groups(items: str, keys: str, oracle: str, *, window_s: int = 10, where: str = "", tail: str = "") -> Both:
    """Groups of a window; `oracle` are the items but for the window's start, which comes first."""
    window = f"window(ts, '{window_s} seconds')"
    listed = ", ".join(filter(None, (window, keys)))
    return Both(
        f"SELECT {window}.start AS s, {items} FROM {STREAM}{where} GROUP BY {listed}{tail}",
        f"SELECT w(ts, {window_s}) AS s, {oracle} FROM orders{where} GROUP BY ALL",
    )


WIDE_ITEMS = "product, express, count(*) AS n, sum(quantity) AS q"
WIDE_CASE = groups(WIDE_ITEMS, "product, express", WIDE_ITEMS)
ROWS_CASE = Both(
    *(f"SELECT id, product, quantity, ts FROM {name} WHERE quantity > 2" for name in (STREAM, "orders")),
)
_TOP = "rank() OVER (PARTITION BY {} ORDER BY {} DESC) <= 2"
_RENAMED = "sum(quantity) AS items, express AS quick, {} AS begins, count(*) AS hits, product AS what"
PARTS = {
    "a longer window": groups(WIDE_ITEMS, "product, express", WIDE_ITEMS, window_s=60),
    "fewer keys": groups("product, sum(quantity) AS q", "product", "product, sum(quantity) AS q"),
    "a stricter filter on groups": groups(
        *("product, sum(quantity) AS q", "product", "product, sum(quantity) AS q"),
        where=" WHERE express AND product <> 'p3'",
    ),
    "HAVING": Both(WIDE_CASE.selat + HAVING, WIDE_CASE.oracle + HAVING),
    "a top k": Both(
        f"{WIDE_CASE.selat} QUALIFY {_TOP.format('window', 'n')}",
        f"SELECT * FROM ({WIDE_CASE.oracle}) QUALIFY {_TOP.format('s', 'n')}",
    ),
    "renamed groups": Both(
        f"SELECT {_RENAMED.format('window.start')} FROM {STREAM} GROUP BY express, window(ts, '10 seconds'), product",
        f"SELECT {_RENAMED.format('w(ts, 10)')} FROM orders GROUP BY ALL",
    ),
    "a stricter filter": Both(*(f"SELECT id, ts FROM {name} WHERE quantity > 5" for name in (STREAM, "orders"))),
    "fewer columns": Both(*(f"SELECT product FROM {name} WHERE quantity > 2" for name in (STREAM, "orders"))),
    "renamed rows": Both(
        *(
            f"SELECT product AS p, ts AS at, quantity AS id, id AS q FROM {n} WHERE quantity > 2"
            for n in (STREAM, "orders")
        )
    ),
}
"""What can be made of the output of `WIDE_CASE` or of `ROWS_CASE`."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One query of a set."""

    query: Both
    mode: str
    at_s: float
    stays_s: float | None
    """Until it is cancelled; None: it is not."""
    pause: tuple[float, float] | None = None
    """How long after it came it is paused, and for how many seconds."""

    @property
    def steps(self) -> list[tuple[float, str]]:
        """What is done with it, and when."""
        steps = [(self.at_s, "submit")]
        if self.pause is not None:
            begin_s = self.at_s + self.pause[0]
            steps += [(begin_s, "pause"), (begin_s + self.pause[1], "resume")]
        return steps if self.stays_s is None else [*steps, (self.at_s + self.stays_s, "cancel")]


@st.composite
def visits(draw: st.DrawFn) -> list[Visit]:
    """Queries of which several are the same, or parts of others. The first two run at once and read the same."""
    pool = draw(st.lists(queries(), min_size=1, max_size=3))
    pool += [COUNTS_CASE, HAVING_CASE, *draw(st.sampled_from(([], [WIDE_CASE, WIDE_CASE], [ROWS_CASE, ROWS_CASE])))]
    pool += draw(st.lists(st.sampled_from(list(PARTS.values())), max_size=4))
    pair = [Visit(query, "sana", at_s, stays_s=None) for query, at_s in ((COUNTS_CASE, 0.0), (HAVING_CASE, 0.1))]
    return pair + [
        Visit(
            query=draw(st.sampled_from(pool)),
            mode=draw(st.sampled_from(("sana", "sana", "max-share", "strict"))),
            at_s=draw(st.floats(0, 4)),
            stays_s=draw(st.one_of(st.none(), st.none(), st.floats(0, 4))),
            pause=draw(st.none() | st.tuples(st.floats(0, 2), st.floats(0, 3))),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


@pytest.fixture
def client(calm: Scene) -> Iterator[selat.Client]:
    with selat.connect(calm.cluster.address) as client:
        if STREAM not in {stream.name for stream in client.streams()}:
            client.sql(calm.dataset.stream(STREAM, REPLAY))
        yield client


def of_stream(query: Both) -> str:
    return re.sub(r"\borders\b", STREAM, query.selat)


@pytest.mark.seeded
@settings(
    max_examples=SETS or 2,
    # Shrinking would run hundreds of queries; a failure names its query.
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(chosen=visits())
def test_shared_queries_equal_the_oracle(calm: Scene, client: selat.Client, chosen: list[Visit]) -> None:
    running = run(client, chosen)
    db = connect(calm.dataset)
    notes = "\n".join(query.explain().text for query in running)
    shared, contained, taken_back = (
        notes.count(words) for words in (": shared with q-", ": made of the output of q-", ": not shared with q-")
    )
    logger.info(
        "%d queries, vertices: %d shared, %d contained, %d taken back", len(running), shared, contained, taken_back
    )
    assert shared + contained > 0, f"nothing was shared:\n{notes}"
    for query, visit in zip(running, chosen, strict=True):
        wanted = expected(db, visit.query.oracle)
        if visit.stays_s is None:
            await_end(query)
        rows = rows_of(query.results(follow=False).arrow())
        if visit.stays_s is None:
            info = query.info()
            assert info.state is selat.QueryState.FINISHED, f"{visit}: {info.state.value} {info.reason}"
            assert_same(rows, wanted, f"{visit}")
        else:
            assert_among(rows, wanted, f"{visit}")
    wait_until(lambda: not any(site.tasks for site in client.sites()))
    assert not client.sharing()


def run(client: selat.Client, chosen: list[Visit]) -> list[selat.Query]:
    """Do with each what is to be done, when its time has come; those that are not cancelled run on.

    All are accepted: what is refused as SQL has tests of its own.
    """
    steps = [(at_s, number, what) for number, visit in enumerate(chosen) for at_s, what in visit.steps]
    running: dict[int, selat.Query] = {}
    begun_s = time.monotonic()
    for at_s, number, what in sorted(steps, key=lambda step: step[0]):
        time.sleep(max(0.0, begun_s + at_s - time.monotonic()))
        if what == "submit":
            client.sql(f"SET sharing = '{chosen[number].mode}'")
            outcome = client.sql(of_stream(chosen[number].query))
            assert isinstance(outcome, selat.Query)
            running[number] = outcome
        else:
            act(running[number], what)
    return [running[number] for number in range(len(chosen))]


def act(query: selat.Query, what: str) -> None:
    """It may have come to its end before, or been cancelled while it was paused."""
    if what == "cancel":
        cancel(query)
        return
    with suppress(selat.StatementError):
        query.pause() if what == "pause" else query.resume()


def await_end(query: selat.Query) -> None:
    """Say what it waited for when it does not come."""
    try:
        query.wait(timeout=PATIENCE)
    except selat.TimedOut:
        tasks = [(t.task_id, t.state.value, t.reason, t.watermark) for t in query.info().tasks]
        pytest.fail(f"{query.id} does not end: {tasks}\n{query.explain().text}")


def cancel(query: selat.Query) -> None:
    """It may have come to its end before."""
    try:
        query.cancel()
    except selat.SelatError:
        assert query.info().state is selat.QueryState.FINISHED


def test_the_owner_goes_and_who_shares_with_it_stays_whole(calm: Scene, client: selat.Client) -> None:
    client.sql("SET sharing = 'sana'")
    owner, sharer = client.sql(of_stream(COUNTS_CASE)), client.sql(of_stream(HAVING_CASE))
    assert isinstance(owner, selat.Query)
    assert isinstance(sharer, selat.Query)
    assert {task.query_id for task in sources(sharer)} == {owner.id}, sharer.explain().text
    wait_until(lambda: sum(operator.bytes_saved for operator in client.sharing()) > 0)
    assert {operator.queries for operator in client.sharing()} == {(owner.id, sharer.id)}
    cancel(owner)
    assert_same(rows_of(sharer.results().arrow()), expected(connect(calm.dataset), HAVING_CASE.oracle), "sharer")
    info = sharer.info()
    assert info.state is selat.QueryState.FINISHED, info.reason
    assert info.sharing is not None
    # The sources ran on under the owner's name.
    assert {task.query_id for task in info.tasks if task.stage_id != "m1"} == {owner.id}


def test_the_owner_is_paused_and_who_shares_with_it_never_stops(calm: Scene, client: selat.Client) -> None:
    client.sql("SET sharing = 'sana'")
    owner, sharer = client.sql(of_stream(COUNTS_CASE)), client.sql(of_stream(HAVING_CASE))
    assert isinstance(owner, selat.Query)
    assert isinstance(sharer, selat.Query)
    assert owner.pause().state is selat.QueryState.PAUSED
    db = connect(calm.dataset)
    assert_same(rows_of(sharer.results().arrow()), expected(db, HAVING_CASE.oracle), "sharer")
    assert sharer.info().state is selat.QueryState.FINISHED
    wait_until(lambda: {task.state for task in owner.info().tasks} == {selat.TaskState.PAUSED})
    assert owner.state() is selat.QueryState.PAUSED
    assert_among(rows_of(owner.results(follow=False).arrow()), expected(db, COUNTS_CASE.oracle), "paused")
    owner.resume()
    assert_same(rows_of(owner.results().arrow()), expected(db, COUNTS_CASE.oracle), "owner")
    assert owner.info().state is selat.QueryState.FINISHED


def test_a_query_that_begins_at_the_next_window_is_whole_from_there(calm: Scene, client: selat.Client) -> None:
    slow = "slow_orders"
    client.sql(calm.dataset.stream(slow, "'mode' = 'replay', 'replay_speed' = '20'"))
    client.sql("SET sharing = 'sana'")
    first = client.sql(FEW_CASE.selat.replace(STREAM, slow))
    assert isinstance(first, selat.Query)
    # Epochs come every second; by then the merge has had a checkpoint, and the sources have let go of some.
    wait_until(lambda: first.info().rows_out > 0 and min(t.epochs for t in sources(first)) >= 8)
    client.sql("SET sharing_start = 'next-window'")
    items = "product, sum(quantity) AS q"
    longer = groups(items, "product", items, window_s=30)
    cases = (HAVING_CASE, longer)
    second, third = (client.sql(case.selat.replace(STREAM, slow)) for case in cases)
    assert isinstance(second, selat.Query)
    assert isinstance(third, selat.Query)
    assert {task.query_id for task in sources(second)} == {first.id}, second.explain().text
    assert derived(third), third.explain().text
    first.cancel()
    for query, case in ((second, HAVING_CASE), (third, longer)):
        rows = rows_of(query.results().arrow())
        info = query.info()
        assert info.sharing is not None
        starts_at = info.sharing.starts_at
        assert starts_at is not None
        wanted = expected(connect(calm.dataset), case.oracle)
        assert_same(rows, wanted.since(starts_at), case.selat)
        assert 0 < len(rows) < len(wanted)


def test_parts_of_a_query_are_made_of_its_output(calm: Scene, client: selat.Client) -> None:
    """All of them run before the first row comes, so that nothing of it is gone."""
    pushed, sites, db = "pushed_orders", ("us", "eu"), connect(calm.dataset)
    declare_pushed(client, pushed)
    client.sql("SET sharing = 'sana'")
    owners = [submitted(client, case, pushed) for case in (WIDE_CASE, ROWS_CASE)]
    parts = {name: submitted(client, case, pushed) for name, case in PARTS.items()}
    for name, query in parts.items():
        own = {task.task_id for task in query.info().tasks if task.query_id == query.id}
        whole = [task for task in map(TaskId.parse, own) if task.stage == "s1" and not task.derived]
        assert not whole, f"{name} reads the stream: {query.explain().text}"
        assert derived(query) <= own, name
        assert re.search(f": made of the output of ({'|'.join(o.id for o in owners)}) ", query.explain().text), name
    for site in sites:
        producer, table = client.push(pushed, site), orders_of(db, site)
        for first in range(0, table.num_rows, 1000):
            producer.send(table.slice(first, 1000))
        producer.finish()
    only_pushed(db)
    for name, query in parts.items():
        assert_same(rows_of(query.results().arrow()), expected(db, PARTS[name].oracle), name)
        info = query.info()
        assert (info.state, info.rows_in) == (selat.QueryState.FINISHED, 6000), f"{name}: {info.reason}"
        assert derived(query), f"{name} ran by itself: {query.explain().text}"
    for query in owners:
        query.wait()
    client.drop(pushed)


def test_derived_tasks_move_from_site_to_site(calm: Scene, client: selat.Client) -> None:
    """They have no state to send; readers and counts go on."""
    pushed, sites, db = "moved_orders", ("us", "eu"), connect(calm.dataset)
    declare_pushed(client, pushed)
    client.sql("SET sharing = 'sana'")
    owner = submitted(client, WIDE_CASE, pushed)
    cases = {name: PARTS[name] for name in ("a longer window", "a stricter filter on groups", "HAVING")}
    parts = {name: submitted(client, case, pushed) for name, case in cases.items()}
    rows = {site: orders_of(db, site) for site in sites}
    producers = {site: client.push(pushed, site) for site in sites}
    for site, producer in producers.items():
        producer.send(rows[site].slice(0, 1500))
    wait_until(lambda: all(query.info().rows_in > 0 for query in parts.values()))
    moves = []
    for query in parts.values():
        for task in sorted(derived(query)):
            site = next(t.site for t in query.info().tasks if t.task_id == task)
            moves.append(client.move_task(query.id, task.split(".", 1)[1], "asia" if site != "asia" else "us"))
    wait_until(lambda: all(move.step.over for query in parts.values() for move in client.moves(query.id)))
    assert {move.step for query in parts.values() for move in client.moves(query.id)} == {MoveStep.MOVED}
    assert len(moves) >= len(parts)
    for site, producer in producers.items():
        producer.send(rows[site].slice(1500))
        producer.finish()
    only_pushed(db)
    for name, query in parts.items():
        assert_same(rows_of(query.results().arrow()), expected(db, cases[name].oracle), name)
        info = query.info()
        assert (info.state, info.rows_in) == (selat.QueryState.FINISHED, 6000), f"{name}: {info.reason}"
    owner.wait()
    client.drop(pushed)


def submitted(client: selat.Client, case: Both, stream: str) -> selat.Query:
    query = client.sql(case.selat.replace(STREAM, stream))
    assert isinstance(query, selat.Query)
    return query


def derived(query: selat.Query) -> set[str]:
    """Its tasks that make their output of what other queries' tasks send."""
    return {task.task_id for task in query.info().tasks if TaskId.parse(task.task_id).derived}


@pytest.mark.long
@pytest.mark.kills
def test_shared_queries_equal_the_oracle_after_kills(isolated: Scene, isolated_client: selat.Client) -> None:
    """Of the master, of the site of merges and results, and of a source that keeps little for its readers."""
    client, stream = isolated_client, "orders"
    client.sql("SET sharing = 'sana'")
    strict = PARTS["a stricter filter on groups"]
    cases = (WIDE_CASE, PARTS["a longer window"], PARTS["HAVING"], strict, WIDE_CASE, PARTS["HAVING"])
    queries = [client.sql(case.selat.replace(STREAM, stream)) for case in cases]
    running = [query for query in queries if isinstance(query, selat.Query)]
    reading = {t.query_id for query in running[1:] for t in sources(query) if t.task_id not in derived(query)}
    assert reading == {running[0].id}
    assert all(derived(query) for query in running[1:4])
    wait_until(lambda: running[3].info().rows_in > 1500)
    kill(isolated.cluster, "master", "agent-us")
    cancel(running[0])
    kill(isolated.cluster, "agent-asia")
    db = connect(isolated.dataset)
    for query, case in list(zip(running, cases, strict=True))[1:]:
        assert_same(rows_of(query.results().arrow()), expected(db, case.oracle), case.selat)
        assert query.info().state is selat.QueryState.FINISHED


def sources(query: selat.Query) -> list[selat.TaskStatus]:
    return [task for task in query.info().tasks if task.stage_id.startswith("s")]


@pytest.mark.long
@pytest.mark.kills
def test_who_shares_with_a_query_whose_site_is_dead_comes_to_its_end(
    isolated: Scene, isolated_client: selat.Client, tmp_path: Path
) -> None:
    """The second query writes at asia, whose agent stands still and is killed; the first does not read there."""
    client, cluster = isolated_client, isolated.cluster
    text = COUNTS.replace(STREAM, "orders").replace(" GROUP BY", " WHERE site IN ('us', 'eu') GROUP BY")
    oracle = ORACLE_COUNTS.replace(" GROUP BY", " WHERE site IN ('us', 'eu') GROUP BY")
    client.sql(f"CREATE SINK counted AT asia WITH ('connector' = 'parquet', 'path' = '{tmp_path}')")
    client.sql("SET sharing = 'sana'")
    first, second = client.sql(text), client.sql(f"INSERT INTO counted {text}")
    assert isinstance(first, selat.Query)
    assert isinstance(second, selat.Query)
    assert {task.query_id for task in second.info().tasks if task.stage_id == "s1"} == {first.id}, second.explain().text
    wait_until(lambda: second.info().state is selat.QueryState.RUNNING)
    wanted = expected(connect(isolated.dataset), oracle)
    with stopped(cluster, "agent-asia"):
        assert_same(rows_of(first.results().arrow()), wanted, "first")
        assert first.info().state is selat.QueryState.FINISHED
        assert not second.info().over
        kill(cluster, "agent-asia")
    assert second.wait(timeout=PATIENCE).state is selat.QueryState.FINISHED
    assert second.last.rows_out == len(wanted)
