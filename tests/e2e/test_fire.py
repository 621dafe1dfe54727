"""Agents and master die at exact steps, and a disk is full, while Spark runs queries: results stay the oracle's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import selat
from master.base import faults as master_faults
from selat.dev.cluster import DevCluster
from site_agent.base import faults as agent_faults
from tests.e2e.cluster import check_against_oracle, running_cluster, submit, wait_until
from tests.e2e.dataset import Dataset, write_dataset
from tests.e2e.faults import REPLAY, SPEED, in_the_middle
from tests.e2e.queries import CASES
from tests.integration.small_disk import SmallDisk, half_files, small_disk

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(500)]

CHOSEN = tuple(c for c in CASES if c.name in ("projection", "all_aggregates", "top_k"))

Point = agent_faults.FaultPoint | master_faults.FaultPoint

DEATHS: Mapping[Point, int] = {
    agent_faults.FaultPoint.EPOCH_RENAMED: 50,
    agent_faults.FaultPoint.CHECKPOINT_DONE: 4,
    master_faults.FaultPoint.MOVE_STORED: 3,
}
"""One death each; the agents of all sites are one process and die together, the master while they start again."""


@dataclass(frozen=True, slots=True)
class Fire:
    cluster: DevCluster
    dataset: Dataset
    disk: SmallDisk
    """What asia has."""
    marks: Path


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Ours, and so our children's."""
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


@contextmanager
def burning(root: Path, deaths: Mapping[Point, int]) -> Iterator[Fire]:
    """A cluster whose processes die at these passages of points, each once."""
    marks = root / "marks"
    marks.mkdir()
    wanted = ",".join(f"{point.value}:{passage}" for point, passage in deaths.items())
    with (
        small_disk(root / "cluster" / "data" / "sites" / "asia", size_kib=64 * 1024) as disk,
        environment(SELAT_FAULT=wanted, SELAT_FAULT_MARKS=str(marks)),
        running_cluster(root / "cluster") as cluster,
        selat.connect(cluster.address) as client,
    ):
        dataset = write_dataset(root / "input")
        list(client.script(dataset.ddl(source=REPLAY)))
        yield Fire(cluster, dataset, disk, marks)


def test_results_equal_the_oracle_after_deaths_at_exact_steps(tmp_path: Path) -> None:
    with burning(tmp_path, DEATHS) as fire, selat.connect(fire.cluster.address) as client:
        assert check_against_oracle(fire.dataset, CHOSEN, submit(client, CHOSEN)) > 100
        assert {path.name for path in fire.marks.iterdir()} == {point.value for point in DEATHS}


@pytest.mark.long
def test_a_full_disk_is_told_and_results_equal_the_oracle_when_there_is_room(tmp_path: Path) -> None:
    with burning(tmp_path, {}) as fire, selat.connect(fire.cluster.address) as client:
        told_of_a_full_disk(fire, client)


def told_of_a_full_disk(fire: Fire, client: selat.Client) -> None:
    queries = submit(client, CHOSEN)
    in_the_middle(queries, rows_in=1500)
    pid = fire.cluster.pids["agents"]
    fire.disk.fill()

    def told() -> bool:
        tasks = [task for query in queries.values() for task in query.info().tasks if task.site == "asia"]
        return any(t.state is selat.TaskState.RETRYING and "the disk is full" in t.reason for t in tasks)

    wait_until(told)
    wait_until(lambda: not half_files(fire.disk.root / "channels"))
    fire.disk.free()
    # The rest is read at once.
    client.sql("ALTER STREAM orders SET ('replay_speed' = 'max')")

    check_against_oracle(fire.dataset, CHOSEN, queries)
    client.sql(f"ALTER STREAM orders SET ({SPEED})")
    assert fire.cluster.pids["agents"] == pid
