"""Real processes killed, frozen, cut off and with damaged files while queries run.

What clients get still equals DuckDB over the whole input; or, where rows are lost for good, the query says so.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

import selat
from tests.e2e.cluster import check_against_oracle, submit, wait_until
from tests.e2e.faults import Scene, damage, epoch_files, in_the_middle, kill, stopped
from tests.e2e.proxy import Cut
from tests.e2e.queries import CASES

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(400)]

CHOSEN = tuple(c for c in CASES if c.name in ("projection", "all_aggregates", "join", "top_k"))
PROJECTION = tuple(c for c in CASES if c.name == "projection")
JOINS = tuple(c for c in CASES if c.name in ("window_left_join", "window_join_aggregate"))
AGGREGATE = tuple(c for c in CASES if c.name == "all_aggregates")

SEVERED_S = 20.0
SEED = 20_260_301


@pytest.fixture
def scene(isolated: Scene) -> Scene:
    return isolated


@pytest.fixture
def client(isolated_client: selat.Client) -> selat.Client:
    return isolated_client


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(("agent-asia",), id="source", marks=pytest.mark.long),
        pytest.param(("agent-us",), id="merge-and-gateway", marks=pytest.mark.long),
        pytest.param(("master",), id="master", marks=pytest.mark.long),
        pytest.param(("master", "agent-us", "agent-eu"), id="master-and-agents"),
    ],
)
def test_results_equal_the_oracle_after_a_kill(scene: Scene, client: selat.Client, victims: tuple[str, ...]) -> None:
    queries = dict(submit(client, CHOSEN))
    in_the_middle(queries, rows_in=1500)
    for name in victims:
        kill(scene.cluster, name)

    check_against_oracle(scene.dataset, CHOSEN, queries)


def test_a_join_of_streams_is_whole_after_a_kill_of_its_merge(scene: Scene, client: selat.Client) -> None:
    queries = dict(submit(client, JOINS))
    in_the_middle(queries, rows_in=1500)
    tasks = [task for query in queries.values() for task in query.info().tasks]
    for site in sorted({task.site for task in tasks if task.stage_id == "m1"}):
        kill(scene.cluster, f"agent-{site}")

    check_against_oracle(scene.dataset, JOINS, queries)


@pytest.mark.long
def test_random_kills_during_one_query(scene: Scene, client: selat.Client) -> None:
    rng = random.Random(SEED)
    queries = submit(client, AGGREGATE)
    for _ in range(4):
        time.sleep(rng.uniform(1.0, 3.0))
        # Whichever serves: one that was killed before may not be back, and is left alone.
        os.kill(rng.choice(sorted(scene.cluster.pids.items()))[1], signal.SIGKILL)

    check_against_oracle(scene.dataset, AGGREGATE, queries)


def test_links_severed_for_20_s(scene: Scene, client: selat.Client) -> None:
    queries = submit(client, CHOSEN)
    in_the_middle(queries, rows_in=1500)
    with scene.links["eu"].severed(Cut.HOLD), scene.links["asia"].severed(Cut.REFUSE):
        time.sleep(SEVERED_S)
        assert {query.state() for query in queries.values()} == {selat.QueryState.RUNNING}

    check_against_oracle(scene.dataset, CHOSEN, queries)


def test_a_damaged_copy_is_fetched_again(scene: Scene, client: selat.Client) -> None:
    cluster = scene.cluster
    queries = submit(client, AGGREGATE)
    in_the_middle(queries, rows_in=1500)
    channel = f"{queries['all_aggregates'].id}.s1.eu"
    wait_until(lambda: len(epoch_files(cluster, "us", channel)) >= 2)
    with stopped(cluster, "agent-us") as pid:
        # Read already, but not behind a checkpoint: the merge will need them once more.
        for path in epoch_files(cluster, "us", channel):
            damage(path)
        os.kill(pid, signal.SIGKILL)
        cluster.await_ready("agent-us", not_pid=pid)

    check_against_oracle(scene.dataset, AGGREGATE, queries)
    log = (cluster.data.logs / "agent-us.log").read_text()
    assert f"channel {channel}: epoch" in log
    assert "was damaged here and was fetched from eu again" in log


def test_a_damaged_epoch_of_the_producer_fails_the_query(scene: Scene, client: selat.Client) -> None:
    cluster = scene.cluster
    queries = submit(client, AGGREGATE)
    in_the_middle(queries, rows_in=1500)
    query = queries["all_aggregates"]
    channel = f"{query.id}.s1.eu"
    before = len(epoch_files(cluster, "eu", channel))
    with stopped(cluster, "agent-us") as pid:
        wait_until(lambda: len(epoch_files(cluster, "eu", channel)) >= before + 2)
        held = epoch_files(cluster, "us", channel)[-1].name
        damaged = next(path for path in epoch_files(cluster, "eu", channel) if path.name > held)
        damage(damaged)
        os.kill(pid, signal.SIGKILL)
        cluster.await_ready("agent-us", not_pid=pid)

    wait_until(lambda: query.state().over)
    info = query.info()
    assert info.state is selat.QueryState.FAILED
    assert f"epoch file {damaged.name} of channel {channel} is damaged" in info.reason


def test_a_full_retention_budget_stops_the_source_and_loses_nothing(scene: Scene, client: selat.Client) -> None:
    queries = submit(client, PROJECTION)
    in_the_middle(queries, rows_in=1500)

    def state_at(site: str) -> selat.TaskState:
        return next(task.state for task in queries["projection"].info().tasks if task.site == site)

    with stopped(scene.cluster, "agent-us"):
        wait_until(lambda: state_at("asia") is selat.TaskState.BACK_PRESSURED)
        assert state_at("eu") is not selat.TaskState.BACK_PRESSURED
    wait_until(lambda: state_at("asia") is not selat.TaskState.BACK_PRESSURED)

    check_against_oracle(scene.dataset, PROJECTION, queries)
