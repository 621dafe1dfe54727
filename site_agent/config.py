"""Settings of a site agent process."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from machine.bearer import Bearer, TokenFileError
from machine.logs import LOG_FORMAT_HELP, LogFormat
from machine.loopback import INSECURE_HELP, TLS_HELP, allows_functions, is_exposed, is_loopback, refusal
from machine.metrics import LISTEN_HELP
from planner.values.errors import PlannerError
from planner.values.topology import Topology
from planner.values.topology_text import read_topology_text
from site_agent.base.errors import SiteAgentError
from site_agent.connectors.paths import ANYWHERE, AllowedPaths
from site_agent.connectors.secrets.values import NO_SECRETS, Secrets
from site_agent.engine.functions import DEFAULT_LIMITS
from site_agent.engine.jvm.session import SparkOptions, driver_bind_address
from site_agent.engine.pyworker import Limits
from site_agent.spark_arguments import add_spark_arguments, spark_options
from site_agent.state.memory import STATE_BYTES
from wire.errors import WireError
from wire.names import site as member_of
from wire.security import PLAIN, Security

LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class HostedSite:
    name: str
    slots: int


@dataclass(frozen=True, slots=True)
class AgentConfig:
    sites: tuple[HostedSite, ...]
    master: str
    """host:port"""
    listen: str
    """host:port; port 0 takes a free one, and is the only one that makes sense with several sites."""
    data: Path
    insecure: bool = False
    """True: the agent may listen on other addresses than loopback."""
    tls_dir: Path | None = None
    """The directory of the site's certificates; None: connections are not encrypted."""
    bearer: Bearer = field(default_factory=Bearer)
    """Adds the agent's token to calls to the master."""
    functions: Limits | None = DEFAULT_LIMITS
    """Limits of the processes that run users' Python functions; None: the agent runs none."""
    allowed: AllowedPaths = ANYWHERE
    """The paths that sources, tables and sinks may use."""
    secrets: Secrets = NO_SECRETS
    """The values of the secrets that connectors' options refer to."""
    advertise: str = ""
    """host:port at which other agents and the master reach the exchange; empty: the address at which it listens."""
    ready_file: Path | None = None
    log_format: LogFormat = LogFormat.TEXT
    metrics: str = ""
    """host:port at which metrics are served; empty: they are not."""
    stop_timeout_s: float = 30.0
    """Seconds that the process may take to stop."""
    spark: SparkOptions = field(default_factory=SparkOptions)
    """Where and how Spark runs; without a master, `local[slots]`."""
    files_port: int = 0
    """The port at which executors of a cluster fetch this agent's files; 0: a free one."""
    emulated_links: Topology | None = None
    """Links from other sites are slowed down to the figures of this topology; None: they are not."""
    retained_bytes: int = 1024 * 1024 * 1024
    """The most bytes that a channel retains for its readers before its task admits no more input."""
    kept_behind_bytes: int = 8 * 1024 * 1024 * 1024
    """The most bytes that a shared channel retains beyond that for queries that are behind others."""
    state_memory_bytes: int = STATE_BYTES
    """What the rows of open windows of all merges may take in memory; the rest of them is on disk."""
    disk_budget_bytes: int = 0
    """While a site keeps more bytes on disk, its tasks admit no input; 0: there is no budget."""


def parse_arguments(arguments: Sequence[str] | None = None) -> AgentConfig:
    """The settings. Raises SiteAgentError for invalid values."""
    parser = argparse.ArgumentParser(
        prog="selat agent", description="Run the site agent of one region (or of several on one machine)."
    )
    _add_member_arguments(parser)
    _add_address_arguments(parser)
    _add_life_arguments(parser)
    _add_wall_arguments(parser)
    add_spark_arguments(parser)
    _add_budget_arguments(parser)
    parser.add_argument(
        "--emulate-links",
        type=Path,
        metavar="FILE",
        help="slow links from other sites down to the bandwidth and latency of a topology file",
    )
    values = parser.parse_args(arguments)
    sites = tuple(_hosted_site(text) for text in values.site)
    if len({s.name for s in sites}) != len(sites):
        raise SiteAgentError("a site is named twice", hint="give each --site once")
    _check_listen("--listen", values.listen)
    if values.metrics_listen:
        _check_listen("--metrics-listen", values.metrics_listen)
    spark = spark_options(values)
    if not values.insecure:
        _check_loopback(values, spark)
    _check_advertised(values.advertise, sites)
    _check_budgets(values)
    return AgentConfig(
        sites=sites,
        master=values.master,
        listen=values.listen,
        advertise=values.advertise,
        data=values.data,
        ready_file=values.ready_file,
        log_format=LogFormat(values.log_format),
        metrics=values.metrics_listen,
        stop_timeout_s=values.stop_timeout,
        insecure=values.insecure,
        tls_dir=values.tls_dir,
        bearer=_bearer(values.token_file, values.master, private=values.insecure or values.tls_dir is not None),
        functions=_function_limits(values),
        allowed=AllowedPaths.of(values.allow_path, insecure=_open_to_others(values)),
        secrets=Secrets(values.secrets_dir),
        spark=spark,
        files_port=values.files_port,
        retained_bytes=values.retained_bytes,
        kept_behind_bytes=values.kept_behind_bytes,
        state_memory_bytes=values.state_memory_bytes,
        disk_budget_bytes=values.disk_budget_bytes,
        emulated_links=_topology(values.emulate_links) if values.emulate_links is not None else None,
    )


def _add_member_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--site",
        action="append",
        required=True,
        metavar="NAME[:SLOTS]",
        help="site to run; slots default to 1; repeatable",
    )
    parser.add_argument("--master", default="127.0.0.1:7410", help="host:port of the master (default %(default)s)")
    parser.add_argument(
        "--data", type=Path, required=True, help="directory for channels, checkpoints and the assignment"
    )


def _add_life_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log-format", choices=[f.value for f in LogFormat], default="text", help=LOG_FORMAT_HELP)
    parser.add_argument("--ready-file", type=Path, help="written when serving: JSON with sites, addresses and pid")
    parser.add_argument(
        "--stop-timeout",
        type=_positive,
        default=30,
        metavar="SECONDS",
        help="how long the agent may take to stop (default %(default)s)",
    )


def _add_address_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        help="host:port to serve other agents and the master at; port 0 takes a free one (default %(default)s)",
    )
    parser.add_argument("--metrics-listen", default="", metavar="HOST:PORT", help=LISTEN_HELP)
    parser.add_argument(
        "--advertise",
        default="",
        metavar="HOST:PORT",
        help="the address at which others reach this agent, if it differs from --listen; for one site only",
    )


def _bearer(file: Path | None, master: str, *, private: bool) -> Bearer:
    """The token for calls to the master. Raises SiteAgentError when the file holds none, or the connection would expose
    it."""
    try:
        bearer = Bearer(file)
    except TokenFileError as error:
        raise SiteAgentError(str(error), hint=error.hint) from None
    if file is not None and not private and not is_loopback(master.rpartition(":")[0]):
        raise SiteAgentError(
            f"the connection to {master} is not encrypted, and a token sent there could be read on the way",
            hint="give --tls-dir, or --insecure in a network of hosts that you trust",
        )
    return bearer


def _add_wall_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--insecure", action="store_true", help=INSECURE_HELP)
    parser.add_argument("--tls-dir", type=Path, metavar="DIR", help=f"{TLS_HELP}; of several sites, each in DIR/NAME")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="has the token of the role site that the master asks for, where it checks who calls",
    )
    parser.add_argument(
        "--python-functions",
        choices=["allow", "refuse"],
        help="whether Python functions of users run here, with this process's rights (default allow; elsewhere "
        "than on loopback refuse)",
    )
    _add_function_arguments(parser)
    parser.add_argument(
        "--allow-path",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="sources, tables and sinks may be in DIR; repeatable (default the working directory; listening "
        "elsewhere than on loopback nowhere)",
    )
    parser.add_argument(
        "--secrets-dir",
        type=Path,
        metavar="DIR",
        help="has a file for each secret that options of connectors refer to, as in '${secret:name}' (default: none)",
    )


def _add_function_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--function-cpu-seconds",
        type=_positive,
        default=DEFAULT_LIMITS.cpu_s,
        metavar="SECONDS",
        help="CPU time of a Python function for one batch of rows (default %(default)s)",
    )
    parser.add_argument(
        "--function-memory-bytes",
        type=_positive,
        default=DEFAULT_LIMITS.memory_bytes,
        metavar="BYTES",
        help="data of a process that runs Python functions, Python's own included (default %(default)s)",
    )
    parser.add_argument(
        "--function-open-files",
        type=_positive,
        default=DEFAULT_LIMITS.open_files,
        metavar="N",
        help="files that such a process may have open (default %(default)s)",
    )


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _function_limits(values: argparse.Namespace) -> Limits | None:
    if not allows_functions(values.python_functions, insecure=_open_to_others(values)):
        return None
    return Limits(values.function_cpu_seconds, values.function_memory_bytes, values.function_open_files)


def security_of(config: AgentConfig, site: str) -> Security:
    """The security of one site's connections.

    Raises:
        SiteAgentError: its certificate is missing, or cannot be used.
    """
    if config.tls_dir is None:
        return PLAIN
    own = config.tls_dir / site
    try:
        return Security.of(own if own.is_dir() or len(config.sites) > 1 else config.tls_dir, member_of(site))
    except WireError as error:
        raise SiteAgentError(error.message, hint=error.hint) from None


def _open_to_others(values: argparse.Namespace) -> bool:
    """Whether connections from others must be allowed explicitly."""
    return values.insecure or is_exposed(values.listen)


def _check_loopback(values: argparse.Namespace, spark: SparkOptions) -> None:
    listen = values.listen if values.tls_dir is None else ""
    for option, address in (("--listen", listen), ("--metrics-listen", values.metrics_listen)):
        message, hint = refusal(option, address) if address else ("", "")
        if message:
            raise SiteAgentError(message, hint=hint)
    bind = driver_bind_address(spark)
    if not spark.encrypted and not is_loopback(bind):
        raise SiteAgentError(
            f"Spark's driver would listen at {bind}, which is not on loopback, and whoever connects there may run code",
            hint="give --tls-dir to encrypt a cluster, leave out --spark-master and spark.driver.bindAddress, or give "
            "--insecure in a network of hosts that you trust",
        )


def _add_budget_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--retained-bytes",
        type=int,
        default=1024 * 1024 * 1024,
        help="bytes a channel may keep for its readers (default %(default)s)",
    )
    parser.add_argument(
        "--kept-behind-bytes",
        type=int,
        default=8 * 1024 * 1024 * 1024,
        help="bytes a shared channel may keep beyond that for queries that are behind others (default %(default)s)",
    )
    parser.add_argument(
        "--state-memory-bytes",
        type=_positive,
        default=STATE_BYTES,
        metavar="BYTES",
        help="memory for rows of open windows of all merges (default %(default)s); the rest of them is on disk",
    )
    parser.add_argument(
        "--disk-budget-bytes",
        type=_positive,
        default=0,
        metavar="BYTES",
        help="while a site keeps more on disk, its tasks admit no input (default: no budget)",
    )


def _check_budgets(values: argparse.Namespace) -> None:
    if values.retained_bytes < 0:
        raise SiteAgentError(f"--retained-bytes {values.retained_bytes} is below 0", hint="for example 1073741824")
    if values.kept_behind_bytes < 0:
        raise SiteAgentError(f"--kept-behind-bytes {values.kept_behind_bytes} is below 0", hint="0 keeps nothing more")


def _check_listen(option: str, address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > LAST_PORT:
        raise SiteAgentError(f"{option} {address!r} is not HOST:PORT", hint="for example 127.0.0.1:7411")


def _check_advertised(address: str, sites: tuple[HostedSite, ...]) -> None:
    if not address:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) <= LAST_PORT:
        raise SiteAgentError(f"--advertise {address!r} is not HOST:PORT", hint="for example eu.example.com:7411")
    if len(sites) > 1:
        raise SiteAgentError(
            f"--advertise {address} is one address, but {len(sites)} sites are named",
            hint="run an agent process for each site",
        )


def _hosted_site(text: str) -> HostedSite:
    name, _, slots = text.partition(":")
    if not name or (slots and (not slots.isdigit() or int(slots) < 1)):
        raise SiteAgentError(f"--site {text!r} is not NAME or NAME:SLOTS", hint="for example --site eu:2")
    return HostedSite(name, int(slots or "1"))


def _topology(file: Path) -> Topology:
    try:
        return read_topology_text(file.read_bytes())
    except OSError as error:
        raise SiteAgentError(f"cannot read {file}: {error.strerror}", hint="name a topology file") from None
    except PlannerError as error:
        raise SiteAgentError(f"{file}: {error.message}", hint=error.hint) from None
