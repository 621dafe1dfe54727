"""`selat dev`: a cluster in the foreground or the background, its state, its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click

from selat.cli.base.app import App, pass_app
from selat.cli.base.interrupts import interrupted_once
from selat.cli.base.options import settings_options
from selat.cli.output.listing import Field, show_list
from selat.dev.background import start_in_background, stop_in_background
from selat.dev.certificates import TLS, DevCertificates
from selat.dev.cluster import DevCluster
from selat.dev.placement import Loopback, Placement
from selat.dev.processes import ClusterOptions
from selat.dev.state import DEFAULT_DATA, DataDirectory, DataLock, find_running, remember_latest
from selat.local.identity import ProcessIdentity
from selat.local.topology import read_topology, topology_file
from selat.transport.channel import DEFAULT_ADDRESS
from selat.transport.token import TOKEN_FILE_VARIABLE
from selat.wan.emulation import Emulations, Wish
from selat.wan.placement import InNamespaces
from selat.wan.probe import PREFERENCE, is_root

WAN_NAME = "dev"
"""The name of the emulated WAN that `--netns` makes."""

_DATA = click.option("--data", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """The endpoint of a site's agent, or of the master, and its process."""

    name: str
    address: str
    process: str
    pid: int
    metrics: str
    """The address of the process's metrics; empty: it serves none."""


_FIELDS: Sequence[Field[_Endpoint]] = (
    Field("name", lambda e: e.name),
    Field("address", lambda e: e.address),
    Field("process", lambda e: e.process),
    Field("pid", lambda e: e.pid, right=True),
    Field("metrics", lambda e: e.metrics),
)


@click.group(invoke_without_command=True)
@click.option(
    "--topology",
    default="three-regions",
    metavar="FILE|NAME",
    show_default=True,
    help="Sites and links: a YAML file, or one that comes with Selat.",
)
@click.option(
    "--listen", default=DEFAULT_ADDRESS, metavar="HOST:PORT", show_default=True, help="Address of the master."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DATA,
    metavar="DIR",
    show_default=True,
    help="Where everything is kept; a later start goes on from there.",
)
@click.option("--isolated", is_flag=True, help="A process with a JVM of its own for each site.")
@click.option("--netns", is_flag=True, help="Each site in a network namespace, with the topology's links between them.")
@click.option("--backend", type=click.Choice(PREFERENCE), help="How --netns emulates delay.  [default: the best here]")
@click.option(
    "--cpus-per-slot", type=click.FloatRange(min=0.01), metavar="CPUS", help="With --netns: hold sites to it."
)
@click.option("--emulate-links", is_flag=True, help="Slow transfers down to the topology's bandwidth and latency.")
@click.option(
    "--allow-path",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Sources, tables and sinks may be in DIR; repeatable.  [default: the working directory]",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="May listen elsewhere than on loopback; then only named paths and no Python functions are allowed.",
)
@click.option(
    "--auth", is_flag=True, help="The master checks who calls; an admin's token is written to DIR/admin.token."
)
@click.option("--python-functions", type=click.Choice(["allow", "refuse"]), help="[default: allow]")
@click.option("--tls", is_flag=True, help="Encrypt everything, with certificates of an authority of its own.")
@click.option("--metrics", is_flag=True, help="Serve metrics for Prometheus; DIR/metrics.json says where.")
@click.option("--connect-port", type=int, metavar="PORT", help="Serve Spark's own clients there; 0: a free port.")
@click.option("--flight-port", type=int, metavar="PORT", help="Serve Arrow Flight SQL there; 0: a free port.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Of all processes.  [default: text]")
@click.option("--detach", is_flag=True, help="Come back when it serves; it runs on in the background.")
@click.option("--background", is_flag=True, hidden=True)
@pass_app
@click.pass_context
def dev(  # noqa: PLR0913 - one per option
    ctx: click.Context,
    app: App,
    *,
    topology: str,
    listen: str,
    data: Path,
    isolated: bool,
    netns: bool,
    backend: str | None,
    cpus_per_slot: float | None,
    emulate_links: bool,
    allow_path: tuple[Path, ...],
    auth: bool,
    insecure: bool,
    python_functions: str | None,
    tls: bool,
    metrics: bool,
    connect_port: int | None,
    flight_port: int | None,
    log_format: str | None,
    detach: bool,
    background: bool,
) -> None:
    """Run a whole cluster on this machine: a master and an agent for each site. Ctrl-C ends it.

    \b
    Examples:
      selat dev                              three regions: us, eu, asia
      selat dev --topology nyc.yaml          the sites and links of a file
      selat dev --emulate-links              with the links' bandwidth and latency
      selat dev --netns                      the same and more, in network namespaces (root)
      selat dev --auth                       with tokens, docs/access.md
      selat dev --connect-port 15002         for Spark's own clients, docs/spark-connect.md
      selat dev --flight-port 31337          for ADBC and JDBC, docs/flight-sql.md
      selat dev --detach; selat dev stop     in the background
    """
    if ctx.invoked_subcommand is not None:
        return
    file = topology_file(topology)
    options = ClusterOptions(
        listen=listen,
        isolated=isolated,
        insecure=insecure,
        python_functions=python_functions or "",
        auth=auth,
        allow_paths=allow_path,
        emulate_links=emulate_links,
        tls=tls,
        metrics=metrics,
        master_arguments=(
            *_log_arguments(log_format),
            *_port_arguments("--connect-port", connect_port),
            *_port_arguments("--flight-port", flight_port),
        ),
        agent_arguments=_log_arguments(log_format),
    )
    wish = Wish(WAN_NAME, backend, cpus_per_slot, ProcessIdentity.of(os.getpid())) if netns else None
    if detach:
        _detached(app, file, data, options, wish)
        return
    with interrupted_once(), _placement(app, file, wish) as placement:
        options = replace(options, placement=placement)
        _attached(app, DevCluster(file, data, options, report=app.note), greet=not background)


@dev.command()
@_DATA
@pass_app
def stop(app: App, *, data: Path | None) -> None:
    """Stop the cluster in DIR, else the one in ./.selat, else the one started last."""
    found = find_running(data)
    if found is None:
        app.note("no cluster is running")
    else:
        directory, state = found
        app.note(f"stopping the cluster in {directory.root}")
        stop_in_background(directory, state, report=app.note)
        app.note("stopped")
    if is_root() and Emulations().down_if_left(WAN_NAME):
        app.note(f"the WAN {WAN_NAME}, whose cluster was killed, is removed")


@dev.command()
@_DATA
@settings_options
@pass_app
@click.pass_context
def status(ctx: click.Context, app: App, *, data: Path | None) -> None:
    """Show the cluster in DIR, else the one in ./.selat, else the one started last. Exit code 1: none runs."""
    found = find_running(data)
    if found is None:
        app.note("no cluster is running")
        ctx.exit(1)
    directory, state = found
    app.note(f"{'serving' if state.ready else 'starting'} at {state.master}, data in {directory.root}")
    show_list(app, _FIELDS, _endpoints(directory))


@contextmanager
def _placement(app: App, file: Path, wish: Wish | None) -> Iterator[Placement]:
    """Where the cluster runs; an emulated WAN exists as long as the cluster in it."""
    if wish is None:
        yield Loopback()
        return
    emulations = Emulations()
    record = emulations.up(read_topology(file), str(file.resolve()), wish)
    app.note(f"the WAN {wish.name} is up, backend {record.backend}; try: selat wan status --links --name {wish.name}")
    try:
        yield InNamespaces(emulations, record)
    finally:
        emulations.down(wish.name)


def _log_arguments(log_format: str | None) -> tuple[str, ...]:
    return ("--log-format", log_format) if log_format else ()


def _port_arguments(option: str, port: int | None) -> tuple[str, ...]:
    return (option, str(port)) if port is not None else ()


def _attached(app: App, cluster: DevCluster, *, greet: bool) -> None:
    app.note(f"starting a master and the agents of {', '.join(cluster.sites)}; Spark takes 10 to 30 s")
    try:
        with suppress(KeyboardInterrupt):
            cluster.start()
            remember_latest(cluster.data)
            if greet:
                _greet(app, cluster.data, cluster.address, cluster.tls_dir, auth=cluster.auth)
                app.note(f"Ctrl-C ends it; what it keeps stays in {cluster.data.root}")
            threading.Event().wait()
        app.note("stopping")
    finally:
        cluster.stop()


def _detached(app: App, topology: Path, data: Path, options: ClusterOptions, wish: Wish | None) -> None:
    directory = DataDirectory(data.resolve())
    # The background process takes the lock for good; this one only checks it before anything is started.
    DataLock(directory).take().release()
    arguments = ["--background", "--topology", str(topology.resolve()), "--listen", options.listen]
    arguments += ["--data", str(directory.root), *(["--isolated"] if options.isolated else [])]
    arguments += ["--emulate-links"] if options.emulate_links else []
    arguments += ["--insecure"] if options.insecure else []
    arguments += ["--tls"] if options.tls else []
    arguments += ["--auth"] if options.auth else []
    arguments += [*(["--metrics"] if options.metrics else []), *options.master_arguments]
    arguments += ["--python-functions", options.python_functions] if options.python_functions else []
    arguments += [word for path in options.allow_paths for word in ("--allow-path", str(path.absolute()))]
    if wish is not None:
        arguments += ["--netns", *(["--backend", wish.backend] if wish.backend else [])]
        arguments += ["--cpus-per-slot", f"{wish.cpus_per_slot:g}"] if wish.cpus_per_slot else []
    state = start_in_background(arguments, directory, report=app.note)
    _greet(
        app,
        directory,
        state.master,
        str(DevCertificates(directory.root / TLS).client) if options.tls else "",
        auth=options.auth,
    )
    app.note(f"it runs in the background, with logs in {directory.logs}; `selat dev stop` ends it")


def _greet(app: App, directory: DataDirectory, master: str, tls_dir: str, *, auth: bool) -> None:
    show_list(app, _FIELDS, _endpoints(directory))
    if directory.metrics_targets.exists():
        app.note(f"metrics for Prometheus: {directory.metrics_targets} (file_sd_configs)")
    option = "" if master == DEFAULT_ADDRESS else f" --master {master}"
    option += f" --tls-dir {tls_dir}" if tls_dir else ""
    app.note(f"try: selat sql{option} 'SHOW SITES'")
    for connect in (process.connect for process in directory.serving() if process.connect):
        app.note(f"Spark's clients: {_spark_line(connect, directory.admin_token if auth else None)}")
    for flight in (process.flight for process in directory.serving() if process.flight):
        app.note(f"Arrow Flight SQL: grpc://localhost:{flight.rpartition(':')[2]}, docs/flight-sql.md")
    if auth:
        app.note(f"with a token: export {TOKEN_FILE_VARIABLE}={directory.admin_token}")


def _spark_line(address: str, token: Path | None) -> str:
    """Return the code that starts a session. To the name localhost, clients send a token without TLS, too."""
    url = f"sc://localhost:{address.rpartition(':')[2]}"
    line = f'SparkSession.builder.remote("{url}").getOrCreate()'
    return line if token is None else line.replace(f'"{url}"', f'f"{url}/;token={{open({str(token)!r}).read()}}"')


def _endpoints(directory: DataDirectory) -> list[_Endpoint]:
    return [
        _Endpoint(name, address, process.name, process.pid, process.metrics)
        for process in directory.serving()
        for name, address in process.addresses.items()
    ]
