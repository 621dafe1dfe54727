"""A master and the agents of a topology's sites as child processes of this one."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import selat
from machine.bearer import TokenFileError, read_token
from machine.loopback import allows_functions
from machine.private import opener
from selat.dev.backoff import LONGEST_PAUSE, Backoff
from selat.dev.certificates import TLS, DevCertificates
from selat.dev.child import Child, ChildSpec, ChildStatus, Report
from selat.dev.placement import Loopback, Placement
from selat.dev.state import ClusterState, DataDirectory, DataLock
from selat.local.errors import DevError
from selat.local.identity import ProcessIdentity
from selat.local.topology import read_topology

MASTER = "master"
"""Name of the child that is the master."""
AGENTS = "agents"
"""Name of the child that runs all agents; isolated ones are named `agent-SITE`."""
_SITES_TOKEN = "sites"
"""Name of the token that the agents show."""

START_TIMEOUT = timedelta(minutes=3)
STOP_GRACE = timedelta(seconds=15)
LAST_PORT = 65535
METRICS_PORT = 7490
"""The master's port in namespaces, where it shares an address with the gateway's agent; agents have the next one."""

_SITES_POLL_S = 0.1
_PATIENCE = timedelta(seconds=10)
"""How often a wait says that it still waits."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How a cluster is run."""

    listen: str = "127.0.0.1:0"
    """host:port of the master; port 0 takes a free one and keeps it over restarts."""
    isolated: bool = False
    """A process with a JVM of its own for each site."""
    master_arguments: tuple[str, ...] = ()
    """Further arguments of the master."""
    agent_arguments: tuple[str, ...] = ()
    """Further arguments of every agent process."""
    site_arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further arguments of one site's agent process; they need `isolated`."""
    longest_pause: timedelta = LONGEST_PAUSE
    """Before a child that died is started again, however often it dies."""
    emulate_links: bool = False
    """Routers slow links down to what the topology says; needs no privileges."""
    insecure: bool = False
    """The master may listen elsewhere than on loopback; then Python functions and paths must be allowed explicitly."""
    auth: bool = False
    """The master checks who calls; tokens of an admin and of the sites are made in the data directory."""
    metrics: bool = False
    """Every process serves metrics at a free port, and keeps it over restarts."""
    python_functions: str = ""
    """`allow`, or `refuse`; empty: refused when insecure."""
    tls: bool = False
    """An authority of its own, and certificates for all members and a client, in the data directory."""
    allow_paths: tuple[Path, ...] = ()
    """Directories in which sources, tables and sinks may be. Empty: the working directory, unless that is `/` or the
    cluster is insecure; then none."""
    placement: Placement = field(default_factory=Loopback)
    """Where the processes run; namespaces imply `isolated`."""


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
        """host:port of the master, once started."""
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
        """True when the master checks who calls."""
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
        """All children as they are now, the master first."""
        return tuple(child.status for child in self._children.values())

    @property
    def pids(self) -> Mapping[str, int]:
        """Process of each child that is there now, by the child's name."""
        return {status.name: status.pid for status in self.statuses if status.pid is not None}

    def start(self, timeout: timedelta = START_TIMEOUT) -> None:
        """Starts everything and waits until it serves; when that fails, nothing is left running.

        Raises DevError when the data directory or the address is in use, or a process does not come to serve.
        """
        self._lock.take()
        try:
            if self._certificates is not None:
                self._certificates.issue(self.sites)
            self._address = self._place.client_address(_bindable(self._options.listen))
            self._children = {spec.name: self._child(spec) for spec in self._specs()}
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
        """Waits until a child serves; with `not_pid`, as another process than that one, which was killed.

        Raises DevError when that takes longer than `timeout`.
        """
        status = self._children[name].await_ready(timeout, not_pid=not_pid)
        if status is None:
            raise self._too_slow(name, timeout)
        return status

    def stop(self, grace: timedelta = STOP_GRACE) -> None:
        """Stops all children, agents first; kills those that take longer than `grace`. May be called again."""
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
        """Make the token of the agents anew: the topology may have other sites than last time."""
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
        """Until the master knows every site as alive: a query submitted from now on finds them."""
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

    def _child(self, spec: ChildSpec) -> Child:
        backoff = Backoff(most_s=self._options.longest_pause.total_seconds())
        return Child(spec, report=self._report, backoff=backoff)

    def _specs(self) -> list[ChildSpec]:
        place, options = self._place, self._options
        arguments = ["--listen", place.master_listen(self._address), "--topology", str(self._topology_file)]
        arguments += [] if place.probes else ["--no-probes"]
        arguments += self._wall_arguments()
        arguments += self._tls_arguments(MASTER)
        arguments += self._auth_arguments() if options.auth else []
        specs = [self._spec(MASTER, None, [*arguments, *options.master_arguments])]
        if not (options.isolated or place.isolated):
            return [
                *specs,
                self._spec(AGENTS, tuple(self._topology.sites), self._agent_arguments(self._topology.sites)),
            ]
        for site in self._topology.sites:
            own = options.site_arguments.get(site, ())
            specs.append(self._spec(f"agent-{site}", (site,), [*self._agent_arguments([site]), *own]))
        return specs

    def _auth_arguments(self) -> list[str]:
        audit = self._data.logs / "audit.log"
        return ["--auth", "--bootstrap-token-file", str(self._data.admin_token), "--audit-log", str(audit)]

    def _wall_arguments(self) -> list[str]:
        """Options of master and agents alike that say what they allow."""
        options, own_network = self._options, self._place.own_network
        allowed = allows_functions(options.python_functions, insecure=options.insecure)
        exposed = ["--insecure"] if options.insecure or own_network else []
        return [*exposed, "--python-functions", "allow" if allowed else "refuse"]

    def _tls_arguments(self, member: str) -> list[str]:
        certificates = self._certificates
        if certificates is None:
            return []
        return ["--tls-dir", str(certificates.master if member == MASTER else certificates.sites)]

    def _path_arguments(self) -> list[str]:
        options, working = self._options, Path.cwd()
        closed = options.insecure or working == Path("/")
        paths = options.allow_paths or (() if closed else (working,))
        return [word for path in paths for word in ("--allow-path", str(path.absolute()))]

    def _agent_arguments(self, sites: Iterable[str]) -> list[str]:
        named = [word for site in sites for word in ("--site", f"{site}:{self._topology.sites[site].slots}")]
        listen = self._place.agent_listen(next(iter(sites)))
        master = self._place.master_for_agents(self._address)
        paced = ["--emulate-links", str(self._topology_file)] if self._options.emulate_links else []
        shown = ["--token-file", str(self._data.sites_token)] if self._options.auth else []
        walls = [*self._wall_arguments(), *self._path_arguments(), *self._tls_arguments(AGENTS), *shown]
        return [*named, "--master", master, "--listen", listen, *paced, *walls, *self._options.agent_arguments]

    def _metrics_listen(self, sites: tuple[str, ...] | None) -> str:
        """The address of a process's metrics, with a port that is free now; in a namespace with a fixed one."""
        if not self._place.own_network:
            return _bindable("127.0.0.1:0")
        if sites is None:
            return f"{_host(self._place.master_for_agents(self._address))}:{METRICS_PORT}"
        return f"{_host(self._place.agent_listen(sites[0]))}:{METRICS_PORT + 1}"

    def _spec(self, name: str, sites: tuple[str, ...] | None, arguments: Sequence[str]) -> ChildSpec:
        """A child process; without sites, the master."""
        # Agents of one site each may share a directory: everything of a site lies under its name.
        module, data = ("master", "master") if sites is None else ("site_agent", "sites")
        ready_file = self._data.ready_files / f"{name}.json"
        entrance = self._place.entrance(sites[0] if sites else None)
        common = ["--data", str(self._data.root / data), "--ready-file", str(ready_file)]
        if self._options.metrics:
            common += ["--metrics-listen", self._metrics_listen(sites)]
        return ChildSpec(
            name=name,
            command=(*entrance, sys.executable, "-P", "-m", module, *arguments, *common),
            log=self._data.logs / f"{name}.log",
            ready_file=ready_file,
            environment=_import_path(),
        )


def _token(path: Path) -> str:
    """Raises DevError."""
    try:
        return read_token(path)
    except TokenFileError as error:
        raise DevError.of(str(error), hint=error.hint) from None


def _import_path() -> dict[str, str]:
    """Children run the code that we run, whatever the working directory holds; installed code is found anyway."""
    root = Path(selat.__file__).parents[1]
    if not (root / "pyproject.toml").exists():
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))}


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _bindable(listen: str) -> str:
    """host:port with a port that is free now. Raises DevError."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > LAST_PORT:
        raise DevError.of(f"{listen!r} is not HOST:PORT", hint="for example 127.0.0.1:7410")
    try:
        address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(address[0], address[1]) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address[4])
            return f"{host}:{probe.getsockname()[1]}"
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DevError.of(
            f"cannot listen at {listen}: {reason}", hint="`selat dev stop` what is there, or give another --listen"
        ) from None
