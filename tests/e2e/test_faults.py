"""Real processes killed, frozen, cut off and with damaged files while queries run.

What clients get still equals DuckDB over the whole input; or, where rows are lost for good, the query says so.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import selat
from selat.dev.cluster import DevCluster
from tests.e2e.cluster import await_all_ready, check_against_oracle, submit, wait_until
from tests.e2e.faults import Scene, damage, epoch_files, in_the_middle, kill, kill_jvm, stopped
from tests.e2e.proxy import Cut
from tests.e2e.queries import CASES, Case
from tests.seeds import random_of

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(400)]

CHOSEN = tuple(c for c in CASES if c.name in ("projection", "all_aggregates", "join", "top_k", "sessions"))
JOINS = tuple(c for c in CASES if c.name in ("window_left_join", "window_join_aggregate"))
INSTANTS = tuple(
    c
    for c in CASES
    if c.name
    in ("full_join_within_an_interval", "groups_of_pairs", "three_streams_within_intervals", "first_row_of_each_chain")
)
KEPT = tuple(
    c
    for c in CASES
    if c.name
    in (
        *("newest_parcel_before", "totals_that_change", "totals_that_are_deleted", "ranks_that_change"),
        *("rows_before_a_row", "totals_of_windows"),
    )
)
"""Queries whose merges keep rows that are part of results that are out."""
PROJECTION = tuple(c for c in CASES if c.name == "projection")
AGGREGATE = tuple(c for c in CASES if c.name == "all_aggregates")

SLOW = "'mode' = 'replay', 'replay_speed' = '5'"
"""A minute: what has to be there at once comes over while a busy machine deploys three queries."""
SEVERED_S = 20.0
SEED = 20_260_301


@pytest.fixture
def scene(isolated: Scene) -> Scene:
    return isolated


@pytest.fixture
def client(isolated_client: selat.Client) -> selat.Client:
    return isolated_client


@pytest.mark.long
@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("agent-asia", id="source"),
        pytest.param("agent-us", id="merge-and-gateway"),
        pytest.param("master", id="master"),
    ],
)
def test_results_equal_the_oracle_after_a_kill(scene: Scene, client: selat.Client, victim: str) -> None:
    queries = submit(client, CHOSEN)
    in_the_middle(queries, rows_in=1500)
    kill(scene.cluster, victim)

    check_against_oracle(scene.dataset, CHOSEN, queries)


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(CHOSEN + JOINS + INSTANTS, id="rows-and-windows"),
        pytest.param(KEPT, id="kept", marks=pytest.mark.long),
    ],
)
def test_results_equal_the_oracle_after_kills_of_the_master_and_every_merge(
    scene: Scene, client: selat.Client, cases: tuple[Case, ...]
) -> None:
    """The sources, copies and results of their sites die with them; us is the gateway, too. Asia loses its JVM."""
    queries = submit(client, cases)
    in_the_middle(queries, rows_in=1500)
    tasks = [task for query in queries.values() for task in query.info().tasks]
    merges = {f"agent-{task.site}" for task in tasks if task.stage_id == "m1"}
    asia = kill_jvm(scene.cluster, "agent-asia")
    kill(scene.cluster, "master", "agent-us", *sorted(merges - {"agent-asia", "agent-us"}))
    scene.cluster.await_ready("agent-asia", not_pid=asia)

    check_against_oracle(scene.dataset, cases, queries)


@pytest.mark.long
@pytest.mark.seeded
def test_random_kills_during_one_query(scene: Scene, client: selat.Client) -> None:
    rng = random_of(SEED)
    queries = submit(client, AGGREGATE)
    for _ in range(4):
        time.sleep(rng.uniform(1.0, 3.0))
        # Whichever serves: one that was killed before may not be back, and is left alone.
        os.kill(rng.choice(sorted(scene.cluster.pids.items()))[1], signal.SIGKILL)

    check_against_oracle(scene.dataset, AGGREGATE, queries)


@pytest.mark.long
def test_links_severed_for_20_s(scene: Scene, client: selat.Client) -> None:
    queries = submit(client, CHOSEN)
    in_the_middle(queries, rows_in=1500)
    with scene.links["eu"].severed(Cut.HOLD), scene.links["asia"].severed(Cut.REFUSE):
        time.sleep(SEVERED_S)
        assert {query.state() for query in queries.values()} == {selat.QueryState.RUNNING}

    check_against_oracle(scene.dataset, CHOSEN, queries)


GREEDY = "SELECT id, length(repeat(substr(product, 1, 1), 1900000000)) AS n FROM parcels"
"""A row of it is larger than the heap."""


@pytest.mark.long
def test_a_query_that_never_fits_into_the_heap_fails_and_others_go_on(scene: Scene, client: selat.Client) -> None:
    queries = submit(client, CHOSEN)
    in_the_middle(queries, rows_in=500)
    greedy = client.sql(GREEDY)
    assert isinstance(greedy, selat.Query)
    wait_until(lambda: greedy.state().over, timeout_s=180)

    info = greedy.info()
    assert info.state is selat.QueryState.FAILED
    assert f"task {greedy.id}.s1.p0 failed: the heap of site asia (1g) was too small 3 times in a row" in info.reason
    await_all_ready(scene.cluster, client)
    check_against_oracle(scene.dataset, CHOSEN, queries)


@dataclass(frozen=True, slots=True)
class Away:
    """The gateway's agent was frozen, three things happened meanwhile, and it was killed and is back."""

    copied: selat.Query
    """Its newest epochs of eu, as they lay at us, were damaged."""
    produced: selat.Query
    """An epoch of eu, as it lay at eu and nowhere else, was damaged."""
    damaged: Path
    """That epoch."""
    held: selat.Query
    """Nobody read it, until its source at asia had no more room."""
    states: Mapping[str, selat.TaskState]
    """Of its sources then, by site."""


@pytest.fixture(scope="module")
def away(isolated: Scene) -> Iterator[Away]:
    cluster = isolated.cluster
    with selat.connect(cluster.address) as client:
        await_all_ready(cluster, client)
        client.sql(isolated.dataset.stream("slow_orders", SLOW))
        slow = [replace(c, sql=c.sql.replace("FROM orders", "FROM slow_orders")) for c in (*PROJECTION, *AGGREGATE)]
        held, produced, copied = (submit(client, (case,))[case.name] for case in (*slow, slow[1]))
        # The last one began last: most of it is still to come when copies of it are looked for.
        in_the_middle({query.id: query for query in (held, produced, copied)}, rows_in=1000)
        with stopped_with_copies(cluster, channel_of(copied)) as (pid, copies):
            before = len(epoch_files(cluster, "eu", channel_of(produced)))
            wait_until(lambda: len(epoch_files(cluster, "eu", channel_of(produced))) >= before + 2)
            wait_until(lambda: source_states(held)["asia"] is selat.TaskState.BACK_PRESSURED)
            states = source_states(held)
            damaged = epoch_files(cluster, "eu", channel_of(produced))[-1]
            for path in (*copies, damaged):
                damage(path)
            os.kill(pid, signal.SIGKILL)
            cluster.await_ready("agent-us", not_pid=pid)
        yield Away(copied, produced, damaged, held, states)


@contextmanager
def stopped_with_copies(cluster: DevCluster, channel: str) -> Iterator[tuple[int, list[Path]]]:
    """The process of us, stopped when it has copies of a channel that it read already, but behind no checkpoint."""
    while True:
        wait_until(lambda: epoch_files(cluster, "us", channel))
        with stopped(cluster, "agent-us") as pid:
            # A checkpoint may have come in between.
            unstored = stored_until(cluster, channel)
            if copies := [path for path in epoch_files(cluster, "us", channel) if int(path.stem) >= unstored]:
                yield pid, copies
                return


def stored_until(cluster: DevCluster, channel: str) -> int:
    """The first epoch of the channel that the last checkpoint of the merge at us does not have."""
    query = channel.partition(".")[0]
    path = cluster.data.root / "sites" / "us" / "tasks" / f"{query}.m1.p0" / "checkpoint.json"
    return int(json.loads(path.read_text())["cursors"].get(channel, 0)) if path.exists() else 0


def channel_of(query: selat.Query) -> str:
    return f"{query.id}.s1.p1"


def source_states(query: selat.Query) -> dict[str, selat.TaskState]:
    return {task.site: task.state for task in query.info().tasks if task.stage_id == "s1"}


def test_a_damaged_copy_is_fetched_again(away: Away, scene: Scene) -> None:
    check_against_oracle(scene.dataset, AGGREGATE, {"all_aggregates": away.copied})
    log = (scene.cluster.data.logs / "agent-us.log").read_text()
    assert f"channel {channel_of(away.copied)}: epoch" in log
    assert "was damaged here and was fetched from eu again" in log


def test_a_damaged_epoch_of_the_producer_fails_the_query(away: Away) -> None:
    wait_until(lambda: away.produced.state().over)
    info = away.produced.info()
    assert info.state is selat.QueryState.FAILED
    assert f"epoch file {away.damaged.name} of channel {channel_of(away.produced)} is damaged" in info.reason


def test_a_full_retention_budget_stops_the_source_and_loses_nothing(away: Away, scene: Scene) -> None:
    assert away.states["asia"] is selat.TaskState.BACK_PRESSURED
    assert away.states["eu"] is not selat.TaskState.BACK_PRESSURED
    wait_until(lambda: source_states(away.held)["asia"] is not selat.TaskState.BACK_PRESSURED)

    check_against_oracle(scene.dataset, PROJECTION, {"projection": away.held})
