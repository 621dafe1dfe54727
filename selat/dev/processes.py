"""The processes of a cluster: their commands, from the cluster's options."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import selat
from machine.loopback import allows_functions
from selat.dev.backoff import LONGEST_PAUSE
from selat.dev.certificates import DevCertificates
from selat.dev.child import ChildSpec
from selat.dev.placement import Loopback, Placement
from selat.dev.state import DataDirectory
from selat.local.errors import DevError

MASTER = "master"
"""Name of the child that is the master."""
AGENTS = "agents"
"""Name of the child that runs all agents; isolated ones are named `agent-SITE`."""
LAST_PORT = 65535
METRICS_PORT = 7490
"""The master's port in namespaces, where it shares an address with the gateway's agent; agents have the next one."""


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
    """The longest pause before a child that died is restarted."""
    emulate_links: bool = False
    """Routers slow links down to the topology's figures; needs no privileges."""
    insecure: bool = False
    """The master may listen on other addresses than loopback; then Python functions and paths must be allowed
    explicitly."""
    auth: bool = False
    """The master checks callers; tokens of an admin and of the sites are created in the data directory."""
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


@dataclass(frozen=True, slots=True)
class ClusterProcesses:
    """A cluster that is about to be started, and the command of each of its processes."""

    options: ClusterOptions
    topology_file: Path
    slots: Mapping[str, int]
    """By site, as the topology orders them."""
    data: DataDirectory
    address: str
    """host:port at which clients find the master."""
    certificates: DevCertificates | None = None
    """None: without TLS."""

    def specs(self) -> list[ChildSpec]:
        """The master's process first, then those of the agents."""
        place, options = self.options.placement, self.options
        arguments = ["--listen", place.master_listen(self.address), "--topology", str(self.topology_file)]
        arguments += [] if place.probes else ["--no-probes"]
        arguments += self._wall_arguments()
        arguments += self._tls_arguments(MASTER)
        arguments += self._auth_arguments() if options.auth else []
        specs = [self._spec(MASTER, None, [*arguments, *options.master_arguments])]
        if not (options.isolated or place.isolated):
            sites = tuple(self.slots)
            return [*specs, self._spec(AGENTS, sites, self._agent_arguments(sites))]
        for site in self.slots:
            own = options.site_arguments.get(site, ())
            specs.append(self._spec(f"agent-{site}", (site,), [*self._agent_arguments([site]), *own]))
        return specs

    def _auth_arguments(self) -> list[str]:
        audit = self.data.logs / "audit.log"
        return ["--auth", "--bootstrap-token-file", str(self.data.admin_token), "--audit-log", str(audit)]

    def _wall_arguments(self) -> list[str]:
        """The options of master and agents about what they allow."""
        options, own_network = self.options, self.options.placement.own_network
        allowed = allows_functions(options.python_functions, insecure=options.insecure)
        exposed = ["--insecure"] if options.insecure or own_network else []
        return [*exposed, "--python-functions", "allow" if allowed else "refuse"]

    def _tls_arguments(self, member: str) -> list[str]:
        certificates = self.certificates
        if certificates is None:
            return []
        return ["--tls-dir", str(certificates.master if member == MASTER else certificates.sites)]

    def _path_arguments(self) -> list[str]:
        options, working = self.options, Path.cwd()
        closed = options.insecure or working == Path("/")
        paths = options.allow_paths or (() if closed else (working,))
        return [word for path in paths for word in ("--allow-path", str(path.absolute()))]

    def _agent_arguments(self, sites: Iterable[str]) -> list[str]:
        named = [word for site in sites for word in ("--site", f"{site}:{self.slots[site]}")]
        listen = self.options.placement.agent_listen(next(iter(sites)))
        master = self.options.placement.master_for_agents(self.address)
        paced = ["--emulate-links", str(self.topology_file)] if self.options.emulate_links else []
        shown = ["--token-file", str(self.data.sites_token)] if self.options.auth else []
        walls = [*self._wall_arguments(), *self._path_arguments(), *self._tls_arguments(AGENTS), *shown]
        return [*named, "--master", master, "--listen", listen, *paced, *walls, *self.options.agent_arguments]

    def _metrics_listen(self, sites: tuple[str, ...] | None) -> str:
        """The address of a process's metrics, with a port that is free now; in a namespace, with a fixed one."""
        if not self.options.placement.own_network:
            return bindable("127.0.0.1:0")
        if sites is None:
            return f"{_host(self.options.placement.master_for_agents(self.address))}:{METRICS_PORT}"
        return f"{_host(self.options.placement.agent_listen(sites[0]))}:{METRICS_PORT + 1}"

    def _spec(self, name: str, sites: tuple[str, ...] | None, arguments: Sequence[str]) -> ChildSpec:
        """A child process; without sites, it is the master."""
        # Agents of one site each may share a directory: all files of a site are below its name.
        module, data = ("master", "master") if sites is None else ("site_agent", "sites")
        ready_file = self.data.ready_files / f"{name}.json"
        entrance = self.options.placement.entrance(sites[0] if sites else None)
        common = ["--data", str(self.data.root / data), "--ready-file", str(ready_file)]
        if self.options.metrics:
            common += ["--metrics-listen", self._metrics_listen(sites)]
        return ChildSpec(
            name=name,
            command=(*entrance, sys.executable, "-P", "-m", module, *arguments, *common),
            log=self.data.logs / f"{name}.log",
            ready_file=ready_file,
            environment=_import_path(),
        )


def _import_path() -> dict[str, str]:
    """Makes children import the code that this process runs, whatever the working directory holds."""
    root = Path(selat.__file__).parents[1]
    if not (root / "pyproject.toml").exists():
        return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))}


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def bindable(listen: str) -> str:
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
