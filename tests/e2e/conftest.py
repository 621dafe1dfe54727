"""Clusters that several modules share: starting one takes longer than most tests in it.

A test declares its own streams, sinks and functions there, under names that nobody else has, and drops them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import selat
from tests.e2e.cluster import await_all_ready, running_cluster
from tests.e2e.dataset import write_dataset
from tests.e2e.faults import REPLAY, SMALL_BUDGET, Scene, running_scene

PAGED = "'mode' = 'follow', 'until' = 'end', 'max_files_per_epoch' = '1'"
"""Several epochs, as fast as they come."""


SMALL_SPLITS = ("--split-size", "0.1")
"""A batch query has several tasks at a site."""


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Where nothing is broken: all sites in one process, streams that are read at once."""
    root = tmp_path_factory.mktemp("calm")
    dataset = write_dataset(root / "input")
    with running_cluster(root / "cluster", heartbeat_timeout_s=60, master_arguments=SMALL_SPLITS) as cluster:
        with selat.connect(cluster.address) as client:
            list(client.script(dataset.ddl()))
        yield Scene(cluster, dataset, {})


@pytest.fixture(scope="session")
def frail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """All sites in one process, so that a kill hits sinks, sources and merges at once; streams take their time.

    `paged` has the orders, too, and takes no time.
    """
    root = tmp_path_factory.mktemp("frail")
    dataset = write_dataset(root / "input")
    with running_cluster(root / "cluster") as cluster:
        with selat.connect(cluster.address) as client:
            list(client.script(dataset.ddl(source=REPLAY) + dataset.stream("paged", PAGED)))
        yield Scene(cluster, dataset, {})


@pytest.fixture(scope="session")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Each site in a process of its own, behind a proxy; streams take their time. Asia keeps little for its readers."""
    root = tmp_path_factory.mktemp("isolated")
    with running_scene(root, {"asia": SMALL_BUDGET}, heartbeat_timeout_s=10) as scene:
        yield scene


@pytest.fixture
def calm_client(calm: Scene) -> Iterator[selat.Client]:
    with selat.connect(calm.cluster.address) as client:
        yield client


@pytest.fixture
def frail_client(frail: Scene) -> Iterator[selat.Client]:
    with selat.connect(frail.cluster.address) as client:
        await_all_ready(frail.cluster, client)
        yield client


@pytest.fixture
def isolated_client(isolated: Scene) -> Iterator[selat.Client]:
    with selat.connect(isolated.cluster.address) as client:
        await_all_ready(isolated.cluster, client)
        yield client
