"""Emulated WANs: creates, finds, changes and removes them. One process at a time may do so; others may read."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from selat.local.identity import ProcessIdentity
from selat.wan.backends import Backend
from selat.wan.backends.bridged import BridgedBackend
from selat.wan.backends.tun import TunBackend
from selat.wan.backends.uml import UmlBackend
from selat.wan.cpu import CpuGroups
from selat.wan.errors import WanError
from selat.wan.layout import UPLINK_DEVICE, Layout, belongs_to, emulation_of
from selat.wan.links import LinkChange, LinkState, Pair
from selat.wan.probe import choose, require_root
from selat.wan.record import Record, Records
from selat.wan.system import Batch, Machine, System

if TYPE_CHECKING:
    from planner.values.topology import Topology

DEFAULT_NAME = "lab"

_ENTER = Path(__file__).with_name("enter.sh")
_END_S = 5.0
_POLL_S = 0.05

Report = Callable[[str], None]
"""Takes a line for people."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What kind of WAN to create."""

    name: str = DEFAULT_NAME
    backend: str | None = None
    """None: the best that works here."""
    cpus_per_slot: float | None = None
    owner: ProcessIdentity | None = None
    """After the death of this process, another WAN of the name may replace what it left."""


class Emulations:
    """All emulated WANs of this machine."""

    def __init__(self, system: System | None = None, records: Records | None = None) -> None:
        self._system = system or Machine()
        self._records = records or Records()

    def up(self, topology: Topology, file: str, wish: Wish | None = None) -> Record:
        """Create the WAN of a topology.

        Raises:
            WanError: no root, a backend that does not work, or a WAN of that name is up; nothing is left behind.
        """
        wish = wish or Wish()
        backend_name = choose(wish.backend).backend
        with self._records.changing():
            before = self._records.find(wish.name)
            if before is not None and (before.owner is None or before.owner.alive):
                raise WanError.of(
                    f"a WAN named {wish.name} is up", hint="`selat wan down` removes it; --name makes another beside it"
                )
            self._remove(wish.name)
            layout = Layout(wish.name, self._records.free_number(), tuple(topology.sites), topology.gateway)
            links = {
                pair: LinkState(link.bandwidth_bytes_per_s, link.latency, link.jitter, link.loss)
                for pair, link in topology.links.items()
            }
            slots = {name: site.slots for name, site in topology.sites.items()}
            record = Record(layout, backend_name, file, slots, links, links, wish.cpus_per_slot, wish.owner)
            try:
                self._records.write(record)
                self._system.apply(_namespace_batches(layout))
                self._backend(record).connect(layout, links)
                self._system.apply(_uplink_batches(layout))
                if wish.cpus_per_slot is not None:
                    for site, count in slots.items():
                        CpuGroups(wish.name).make(site, count * wish.cpus_per_slot)
            except BaseException:
                self._remove(wish.name)
                raise
        return record

    def down(self, name: str = DEFAULT_NAME) -> bool:
        """Remove a WAN with all its processes, whatever its state; returns whether there was one.

        Raises:
            WanError: no root, or it was made for another process, which still runs.
        """
        require_root()
        with self._records.changing():
            record = self._records.find(name)
            if record is not None and record.owner is not None and _is_another(record.owner):
                raise WanError.of(
                    f"the WAN {name} belongs to process {record.owner.pid}, which runs",
                    hint="end that one, as with `selat dev stop`; the WAN goes with it",
                )
            return self._remove(name)

    def down_if_left(self, name: str = DEFAULT_NAME) -> bool:
        """Remove a WAN whose owner died without removing it; returns whether there was one."""
        with self._records.changing():
            record = self._records.find(name)
            left = record is not None and record.owner is not None and not record.owner.alive
            return left and self._remove(name)

    def find(self, name: str = DEFAULT_NAME) -> Record:
        """The record of a WAN. Raises WanError when no such WAN exists."""
        record = self._records.find(name)
        if record is None:
            others = ", ".join(r.layout.name for r in self._records.all())
            raise WanError.of(
                f"no WAN named {name} is up", hint=f"these are: {others}" if others else "`selat wan up` makes one"
            )
        return record

    def all(self) -> tuple[Record, ...]:
        return self._records.all()

    def change(self, name: str, changes: Mapping[Pair, LinkChange]) -> Record:
        """Change links while traffic flows; packets that are under way are not affected.

        Raises:
            WanError: no such WAN, or the kernel refuses.
        """
        require_root()
        with self._records.changing():
            record = self.find(name)
            changed = {p: c.applied(record.links[p], original=record.original[p]) for p, c in changes.items()}
            links = {**record.links, **changed}
            # Also if the record says that nothing changes: a process may have died between recording and changing.
            self._backend(record).change(record.layout, links, changed)
            record = replace(record, links=links)
            self._records.write(record)
        return record

    def complaint(self, record: Record) -> str:
        """What no longer works; empty when everything does."""
        missing = set(record.layout.namespaces) - set(self._namespaces())
        if missing:
            return f"the namespace {sorted(missing)[0]} is gone"
        return self._backend(record).complaint(record.layout)

    def processes(self, record: Record, site: str) -> tuple[int, ...]:
        """Processes in a site's namespace."""
        return self._pids(record.layout.namespace(site))

    def kill(self, record: Record, site: str) -> int:
        """SIGKILL all processes of a site and keep it down until it is revived; returns how many there were."""
        require_root()
        self._held(record, site).write_text("")
        pids = self.processes(record, site)
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        return len(pids)

    def revive(self, record: Record, site: str) -> bool:
        """Allow processes of the site to start again; returns whether it was down."""
        require_root()
        held = self._held(record, site)
        was_down = held.exists()
        held.unlink(missing_ok=True)
        return was_down

    def is_held(self, record: Record, site: str) -> bool:
        """Whether the site is killed."""
        return self._held(record, site).exists()

    def entrance(self, record: Record, site: str) -> tuple[str, ...]:
        """The words in front of a command that make it run in the site, limited to its CPUs."""
        cgroup = CpuGroups(record.layout.name).directory(site) if record.cpus_per_slot is not None else ""
        return ("sh", str(_ENTER), str(self._held(record, site)), str(cgroup), record.layout.namespace(site))

    def _held(self, record: Record, site: str) -> Path:
        return self._records.directory(record.layout.name) / f"held.{site}"

    def _backend(self, record: Record) -> Backend:
        directory = self._records.directory(record.layout.name)
        return make_backend(record.backend, self._system, directory)

    def _remove(self, name: str) -> bool:
        """Remove everything of a WAN, also what a crash left: all of it is found by its name."""
        record = self._records.find(name)
        namespaces = [n for n in self._namespaces() if belongs_to(n, name)]
        self._end_processes(namespaces)
        if record is not None:
            # It vanishes with its other end's namespace, but the kernel takes its time.
            self._system.apply([Batch("ip", None, (f"link del {record.layout.host_device}",), may_fail=True)])
        lines = tuple(f"netns del {namespace}" for namespace in namespaces)
        self._system.apply([Batch("ip", None, lines)] if lines else [])
        CpuGroups(name).remove_all()
        self._records.forget(name)
        return record is not None or bool(namespaces)

    def _end_processes(self, namespaces: list[str]) -> None:
        """End all processes, first with SIGTERM, then with SIGKILL; including those that start meanwhile."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            told: set[int] = set()
            deadline_s = time.monotonic() + _END_S
            while pids := {pid for namespace in namespaces for pid in self._pids(namespace)}:
                for pid in pids - told:
                    _signal(pid, number)
                told |= pids
                if time.monotonic() >= deadline_s:
                    break
                time.sleep(_POLL_S)

    def _namespaces(self) -> list[str]:
        listed = json.loads(self._system.output(("ip", "-json", "netns", "list")) or "[]")
        return [entry["name"] for entry in listed if emulation_of(entry["name"]) is not None]

    def _pids(self, namespace: str) -> tuple[int, ...]:
        """The processes in a namespace; None: there is no such namespace."""
        try:
            return tuple(int(word) for word in self._system.output(("ip", "netns", "pids", namespace)).split())
        except WanError:
            if namespace in self._namespaces():
                raise
            return ()


def make_backend(name: str, system: System, state: Path) -> Backend:
    """The backend of that name; `state` is where it may keep files."""
    if name == "tun":
        return TunBackend(system, state)
    if name == "uml-router":
        return UmlBackend(system, state)
    return BridgedBackend(system, netem=name == "netem")


def _namespace_batches(layout: Layout) -> list[Batch]:
    return [
        Batch("ip", None, tuple(f"netns add {namespace}" for namespace in layout.namespaces)),
        *(Batch("ip", namespace, ("link set lo up",)) for namespace in layout.namespaces),
    ]


def _uplink_batches(layout: Layout) -> list[Batch]:
    """The link between the machine and the gateway's namespace, so that clients need not be in a namespace."""
    namespace = layout.namespace(layout.gateway)
    return [
        Batch(
            "ip",
            None,
            (
                f"link add {layout.host_device} type veth peer name {UPLINK_DEVICE} netns {namespace}",
                f"addr add {layout.host_address}/30 dev {layout.host_device}",
                f"link set {layout.host_device} up",
            ),
        ),
        Batch(
            "ip",
            namespace,
            (f"addr add {layout.uplink_address}/30 dev {UPLINK_DEVICE}", f"link set {UPLINK_DEVICE} up"),
        ),
    ]


def _is_another(process: ProcessIdentity) -> bool:
    """Whether it is alive and not this process."""
    return process.alive and process.pid != os.getpid()


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
