"""A cluster whose sites are network namespaces, on links that can be changed. Needs root."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import selat
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from selat.local.identity import ProcessIdentity
from selat.local.topology import read_topology
from selat.wan.emulation import Emulations, Wish
from selat.wan.placement import InNamespaces
from selat.wan.record import Record


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster in namespaces."""

    client: selat.Client
    emulations: Emulations
    record: Record


@contextmanager
def place(root: Path, name: str, topology: str, master_arguments: Sequence[str]) -> Iterator[Place]:
    """A cluster whose sites are in namespaces of that name; nothing of it is left afterwards, nor after a signal."""
    file = root / "topology.yaml"
    file.write_text(topology)
    emulations = Emulations()
    with _ended_by_signals():
        record = emulations.up(read_topology(file), str(file), Wish(name, owner=ProcessIdentity.of(os.getpid())))
        try:
            options = ClusterOptions(
                placement=InNamespaces(emulations, record),
                master_arguments=tuple(master_arguments),
                allow_paths=(root,),
            )
            with DevCluster(file, root / "data", options) as cluster, selat.connect(cluster.address) as client:
                yield Place(client, emulations, record)
        finally:
            emulations.down(name)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the process as SIGINT does: by an exception, so that all is removed."""
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    # A second signal does not interrupt what removes all.
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)
