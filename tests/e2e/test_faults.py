"""Real processes killed with SIGKILL while queries run: what clients get still equals DuckDB over the whole input."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import selat
from selat.dev.cluster import DevCluster
from tests.e2e.cluster import check_against_oracle, running_cluster, submit, wait_until
from tests.e2e.dataset import Dataset, write_dataset
from tests.e2e.queries import CASES

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(400)]

CHOSEN = tuple(c for c in CASES if c.name in ("projection", "all_aggregates", "join", "top_k"))
REPLAY = "'mode' = 'replay', 'replay_speed' = '15'"
"""Five minutes of events in twenty seconds: long enough to be killed in the middle."""


@dataclass(frozen=True, slots=True)
class Scene:
    cluster: DevCluster
    dataset: Dataset


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    root: Path = tmp_path_factory.mktemp("faults")
    dataset = write_dataset(root / "input")
    with running_cluster(root / "cluster", isolated=True) as cluster:
        with selat.connect(cluster.address) as client:
            list(client.script(dataset.ddl(source=REPLAY)))
        yield Scene(cluster, dataset)


def kill(cluster: DevCluster, name: str) -> None:
    """SIGKILL one child, and wait until its successor serves."""
    pid = cluster.pids[name]
    os.kill(pid, signal.SIGKILL)
    cluster.await_ready(name, not_pid=pid)


def in_the_middle(queries: dict[str, selat.Query], *, rows_in: int) -> None:
    """Wait until every query has read so many rows, of the 9000 there are."""
    for query in queries.values():
        wait_until(lambda query=query: query.info().rows_in >= rows_in)
        assert query.state() is selat.QueryState.RUNNING


@pytest.mark.parametrize(
    "victims",
    [("agent-asia",), ("agent-us",), ("master",), ("master", "agent-us", "agent-eu")],
    ids=["source", "merge-and-gateway", "master", "master-and-agents"],
)
def test_results_equal_the_oracle_after_a_kill(scene: Scene, victims: tuple[str, ...]) -> None:
    cluster = scene.cluster
    with selat.connect(cluster.address) as client:
        queries = dict(submit(client, CHOSEN))
        in_the_middle(queries, rows_in=1500)
        for name in victims:
            kill(cluster, name)

        check_against_oracle(scene.dataset, CHOSEN, queries)
