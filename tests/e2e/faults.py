"""A cluster to break, and the ways to break it: kill, freeze, cut a link, damage files."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

import selat
from selat.dev.cluster import DevCluster
from tests.e2e.cluster import running_cluster, wait_until
from tests.e2e.dataset import SITES, Dataset, write_dataset
from tests.e2e.proxy import LinkProxy
from tests.jvm import AGENT_ARGUMENTS

SMALL_BUDGET = ("--retained-bytes", "4000")
"""An agent's arguments: it keeps an epoch or two for readers that stay away."""

SPEED = "'replay_speed' = '15'"
REPLAY = f"'mode' = 'replay', {SPEED}"
"""Five minutes of events in twenty seconds: long enough to be broken in the middle."""

Queries = Mapping[str, selat.Query]


@dataclass(frozen=True, slots=True)
class Scene:
    cluster: DevCluster
    dataset: Dataset
    links: Mapping[str, LinkProxy]
    """What other agents and the master come through to reach each site's agent; empty: they reach it directly."""


@contextmanager
def running_scene(
    root: Path,
    arguments: Mapping[str, tuple[str, ...]] | None = None,
    *,
    heartbeat_timeout_s: int = 10,
    agent_arguments: tuple[str, ...] = AGENT_ARGUMENTS,
) -> Iterator[Scene]:
    """Three sites, each a process of its own behind a proxy, with streams declared.

    Args:
        root: Directory for input, logs and state.
        arguments: Of one site's agent, by site.
        agent_arguments: Of all agents.
    """
    dataset = write_dataset(root / "input")
    with ExitStack() as stack:
        links = {}
        by_site = {}
        for site in SITES:
            port = free_port()
            links[site] = LinkProxy(port)
            stack.callback(links[site].close)
            given = (arguments or {}).get(site, ())
            by_site[site] = ("--listen", f"127.0.0.1:{port}", "--advertise", links[site].address, *given)
        running = running_cluster(
            root / "cluster",
            isolated=True,
            heartbeat_timeout_s=heartbeat_timeout_s,
            site_arguments=by_site,
            agent_arguments=agent_arguments,
        )
        cluster = stack.enter_context(running)
        with selat.connect(cluster.address) as client:
            list(client.script(dataset.ddl(source=REPLAY)))
        yield Scene(cluster, dataset, links)


_reserved: list[socket.socket] = []


def free_port() -> int:
    """A port of this machine for a server that may die and come back: nobody else is given it meanwhile.

    A socket that is bound and never listens keeps it until this process ends; a server may bind it all the same.
    """
    guard = socket.socket()
    guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    guard.bind(("127.0.0.1", 0))
    _reserved.append(guard)
    port: int = guard.getsockname()[1]
    return port


def kill(cluster: DevCluster, *names: str) -> None:
    """SIGKILL children, all at once, and wait until their successors serve."""
    pids = {name: cluster.pids[name] for name in names}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    for name, pid in pids.items():
        cluster.await_ready(name, not_pid=pid)


def kill_jvm(cluster: DevCluster, name: str) -> int:
    """SIGKILL an agent's JVM; the agent's process, which is to end by itself then."""
    pid = cluster.pids[name]
    (jvm,) = (child for child in psutil.Process(pid).children() if child.name() == "java")
    jvm.kill()
    return pid


@contextmanager
def stopped(cluster: DevCluster, name: str) -> Iterator[int]:
    """A child that does nothing, but is there, inside the block; unless it is killed there. Its process."""
    pid = cluster.pids[name]
    os.kill(pid, signal.SIGSTOP)
    # The signal is sent, but the process may still be in the middle of a step.
    time.sleep(0.2)
    try:
        yield pid
    finally:
        if cluster.pids.get(name) == pid:
            os.kill(pid, signal.SIGCONT)


def in_the_middle(queries: Queries, *, rows_in: int) -> None:
    """Wait until every query has read so many rows, of the 9000 there are."""
    for query in queries.values():
        wait_until(lambda query=query: query.info().rows_in >= rows_in)
        # On a busy machine some of its tasks may still be on their way to their sites.
        assert not query.state().over


def epoch_files(cluster: DevCluster, site: str, channel: str) -> list[Path]:
    """A channel's epochs as they lie at a site, the oldest first."""
    return sorted((cluster.data.root / "sites" / site / "channels" / channel).glob("*.epoch"))


def damage(path: Path) -> None:
    """Change the last byte: of the rows if there are any, of the manifest else."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)
