"""Clusters of real processes for the tests: a master, and an agent with its own JVM per site or one for all."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import selat
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from tests.e2e.dataset import SITES, Dataset
from tests.e2e.oracle import assert_same, connect, expected, rows_of
from tests.e2e.queries import Case
from tests.jvm import AGENT_ARGUMENTS

TEMPORARY = Path(tempfile.gettempdir())
"""The directory that contains the input of all tests."""

LONGEST_PAUSE = timedelta(seconds=0.5)
"""Before a process that was killed is started again, in clusters where that is done often."""

GATEWAY = "us"
TOPOLOGY = f"""
gateway: {GATEWAY}
sites: {{us: {{slots: 1}}, eu: {{slots: 1}}, asia: {{slots: 1}}}}
default_link: {{bandwidth: 50Mbit/s, latency: 40ms}}
"""


@contextmanager
def running_cluster(
    directory: Path,
    *,
    isolated: bool = False,
    heartbeat_timeout_s: int = 10,
    site_arguments: Mapping[str, tuple[str, ...]] | None = None,
    agent_arguments: tuple[str, ...] = AGENT_ARGUMENTS,
    master_arguments: tuple[str, ...] = (),
    tls: bool = False,
) -> Iterator[DevCluster]:
    """Three sites; stopped at the end, whatever happens."""
    directory.mkdir(parents=True, exist_ok=True)
    topology = directory / "topology.yaml"
    topology.write_text(TOPOLOGY)
    options = ClusterOptions(
        isolated=isolated,
        agent_arguments=agent_arguments,
        longest_pause=LONGEST_PAUSE,
        master_arguments=("--heartbeat-timeout", str(heartbeat_timeout_s), *master_arguments),
        site_arguments=site_arguments or {},
        allow_paths=(TEMPORARY,),
        tls=tls,
    )
    with DevCluster(topology, directory / "data", options) as cluster:
        yield cluster


def await_all_ready(cluster: DevCluster, client: selat.Client) -> None:
    """All processes serve and all sites are alive, whatever a test before did to them."""
    for status in cluster.statuses:
        cluster.await_ready(status.name)
    wait_until(lambda: {site.state for site in client.sites()} == {selat.SiteState.ALIVE})


def submit(client: selat.Client, cases: tuple[Case, ...]) -> Mapping[str, selat.Query]:
    queries = {}
    for case in cases:
        outcome = client.sql(case.sql)
        assert isinstance(outcome, selat.Query), case.name
        queries[case.name] = outcome
    return queries


def check_against_oracle(dataset: Dataset, cases: tuple[Case, ...], queries: Mapping[str, selat.Query]) -> int:
    """Follow every query to its end; its results must be the oracle's. How many rows there were."""
    db = connect(dataset)
    rows = 0
    for case in cases:
        table = queries[case.name].results().arrow()
        info = queries[case.name].info()
        assert info.state is selat.QueryState.FINISHED, f"{case.name}: {info.state.value} {info.reason}"
        assert info.rows_late == 0, case.name
        assert_same(rows_of(table), expected(db, case.oracle), case.name)
        rows += table.num_rows
    return rows


def left_of(client: selat.Client, cluster: DevCluster) -> list[str]:
    """Descriptions of tasks, shared operators, slots and files of queries that are left after all are over.

    Results, which the gateway keeps, are not among them, nor files that sources prepare for all queries.
    """
    tasks = [f"task {task.task_id} at {site.name}" for site in client.sites() for task in site.tasks]
    operators = [f"shared operator {operator.task_id}" for operator in client.sharing()]
    slots = [f"slot {s.slot} {s.state.value}" for s in client.slots() if s.lease is not None]
    sites = cluster.data.root / "sites"
    kept = [sites / site / kind for site in SITES for kind in ("tasks", "sources")]
    kept += [sites / site / "channels" for site in SITES if site != GATEWAY]
    files = (path for directory in kept for path in directory.glob("q-*"))
    return tasks + operators + slots + [str(path.relative_to(cluster.data.root)) for path in files]


def wait_until(condition: object, timeout_s: float = 120.0) -> None:
    """Poll a condition of the outside world."""
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
