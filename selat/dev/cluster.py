"""A master and the agents of a topology's sites as child processes of this one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import selat
from machine.bearer import TokenFileError, read_token
from machine.private import opener
from selat.dev.backoff import Backoff
from selat.dev.certificates import TLS, DevCertificates
from selat.dev.child import Child, ChildSpec, ChildStatus, Report
from selat.dev.processes import MASTER, ClusterOptions, ClusterProcesses, bindable
from selat.dev.state import ClusterState, DataDirectory, DataLock
from selat.local.errors import DevError
from selat.local.identity import ProcessIdentity
from selat.local.topology import read_topology

_SITES_TOKEN = "sites"
"""The name of the agents' token."""

START_TIMEOUT = timedelta(minutes=3)
STOP_GRACE = timedelta(seconds=15)

_SITES_POLL_S = 0.1
_PATIENCE = timedelta(seconds=10)
"""How often a wait reports that it is still waiting."""


class DevCluster:
    """A cluster on this machine, for `selat dev`, tests and the demo.

        with DevCluster(NYC, Path("/tmp/nyc")) as cluster:
            client = selat.connect(cluster.address)

    Children that die are started again. All of them die with this process. Not safe for use from several threads.
    """

    def __init__(
        self, topology: Path, data: Path, options: ClusterOptions | None = None, *, report: Report = lambda text: None
    ) -> None:
        """`report` takes lines for people, from any thread.

        Raises DevError when the topology makes no sense.
        """
        self._topology_file = topology.resolve()
        self._topology = read_topology(topology)
        self._options = options or ClusterOptions()
        self._place = self._options.placement
        self._data = DataDirectory(data.resolve())
        self._lock = DataLock(self._data)
        self._report = report
        self._certificates = DevCertificates(self._data.root / TLS) if self._options.tls else None
        self._address = ""
        self._children: dict[str, Child] = {}

    @property
    def address(self) -> str:
        """host:port of the master, after the start."""
        return self._address

    @property
    def tls_dir(self) -> str:
        """Directory of a certificate for clients; empty without TLS."""
        return str(self._certificates.client) if self._certificates is not None else ""

    @property
    def data(self) -> DataDirectory:
        return self._data

    @property
    def auth(self) -> bool:
        """Whether the master checks callers."""
        return self._options.auth

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of all sites, as the topology orders them."""
        return tuple(self._topology.sites)

    @property
    def site_addresses(self) -> Mapping[str, str]:
        """host:port of each site's agent that serves now."""
        return {site: address for status in self.statuses for site, address in status.ready.get("sites", {}).items()}

    @property
    def statuses(self) -> tuple[ChildStatus, ...]:
        """The present statuses of all children, the master's first."""
        return tuple(child.status for child in self._children.values())

    @property
    def pids(self) -> Mapping[str, int]:
        """The process ids of the running children, by name."""
        return {status.name: status.pid for status in self.statuses if status.pid is not None}

    def start(self, timeout: timedelta = START_TIMEOUT) -> None:
        """Start everything and wait until it serves; after an error nothing is left running.

        Raises DevError when the data directory or the address is in use, or a process does not come to serve.
        """
        self._lock.take()
        try:
            if self._certificates is not None:
                self._certificates.issue(self.sites)
            self._address = self._place.client_address(bindable(self._options.listen))
            self._children = {spec.name: self._child(spec) for spec in self._processes().specs()}
            self._write_state(ready=False)
            first, *others = self._children.values()
            first.start()
            if self._options.auth:
                self._admit_sites(timeout)
            for child in others:
                child.start()
            self._await_all(timeout)
            self._write_state(ready=True)
            self._data.write_metrics_targets()
        except BaseException:
            self.stop()
            raise

    def await_ready(self, name: str, timeout: timedelta = START_TIMEOUT, *, not_pid: int | None = None) -> ChildStatus:
        """Wait until a child serves; with `not_pid`, as another process than that one, which was killed.

        Raises DevError when that takes longer than `timeout`.
        """
        status = self._children[name].await_ready(timeout, not_pid=not_pid)
        if status is None:
            raise self._too_slow(name, timeout)
        return status

    def stop(self, grace: timedelta = STOP_GRACE) -> None:
        """Stop all children, agents first; kill those that take longer than `grace`. May be called again."""
        if not self._lock.held:
            return
        deadline = time.monotonic() + grace.total_seconds()
        for child in reversed(self._children.values()):
            child.ask_to_stop()
        for child in reversed(self._children.values()):
            child.await_stop(timedelta(seconds=max(0.0, deadline - time.monotonic())))
        self._children = {}
        self._data.forget()
        self._lock.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def connect(self) -> selat.Client:
        """A client that may do everything. Raises DevError, SelatError."""
        token = _token(self._data.admin_token) if self._options.auth else None
        insecure = self._options.insecure or self._place.own_network
        return selat.connect(self._address, tls_dir=self.tls_dir, token=token, insecure=insecure)

    def _admit_sites(self, timeout: timedelta) -> None:
        """Create the agents' token again: the topology may have other sites than last time."""
        self.await_ready(MASTER, timeout)
        with self.connect() as client:
            with suppress(selat.NotFound):
                client.revoke_token(_SITES_TOKEN)
            made = client.create_token(_SITES_TOKEN, ("site",), bound_to=self.sites)
        with open(self._data.sites_token, "w", opener=opener) as file:
            file.write(made.secret + "\n")

    def _await_all(self, timeout: timedelta) -> None:
        started = time.monotonic()
        for name, child in self._children.items():
            while (status := child.await_ready(_PATIENCE)) is None:
                waited_s = time.monotonic() - started
                if waited_s >= timeout.total_seconds():
                    raise self._too_slow(name, timeout)
                self._report(f"waiting for {name} ({waited_s:.0f} s; log: {child.spec.log})")
            self._report(f"{name} ready (process {status.pid}, {time.monotonic() - started:.1f} s)")
        self._await_sites(started + timeout.total_seconds())

    def _await_sites(self, deadline_s: float) -> None:
        """Wait until the master knows every site as alive: queries submitted from then on can use them."""
        with self.connect() as client:
            while away := [site.name for site in client.sites() if site.state is not selat.SiteState.ALIVE]:
                if time.monotonic() >= deadline_s:
                    raise DevError.of(
                        f"site {away[0]} does not report to the master", hint=f"look into {self._data.logs}"
                    )
                time.sleep(_SITES_POLL_S)

    def _too_slow(self, name: str, timeout: timedelta) -> DevError:
        log = self._children[name].spec.log
        return DevError.of(f"{name} does not serve after {timeout.total_seconds():g} s", hint=f"look into {log}")

    def _write_state(self, *, ready: bool) -> None:
        state = ClusterState(
            supervisor=ProcessIdentity.of(os.getpid()),
            master=self._address,
            topology=str(self._topology_file),
            ready=ready,
        )
        self._data.write(state)

    def _processes(self) -> ClusterProcesses:
        slots = {name: site.slots for name, site in self._topology.sites.items()}
        return ClusterProcesses(
            self._options, self._topology_file, slots, self._data, self._address, self._certificates
        )

    def _child(self, spec: ChildSpec) -> Child:
        backoff = Backoff(most_s=self._options.longest_pause.total_seconds())
        return Child(spec, report=self._report, backoff=backoff)


def _token(path: Path) -> str:
    """The token in a file. Raises DevError."""
    try:
        return read_token(path)
    except TokenFileError as error:
        raise DevError.of(str(error), hint=error.hint) from None
