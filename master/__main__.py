"""`python -m master`: run the central job manager."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import timedelta
from pathlib import Path

from contract.installed import declare_installed
from machine.logs import LOG_FORMAT_HELP, LogFormat
from machine.loopback import INSECURE_HELP, TLS_HELP, allows_functions, is_exposed, refusal
from machine.metrics import LISTEN_HELP, CannotListenError, serving_metrics
from machine.private import make_private_umask
from machine.tracing import tracing
from master import commands
from master.access.options import access_config, add_access_options
from master.base import logs
from master.base.errors import InvalidRequestError, MasterError
from master.base.logs import line
from master.config import guests
from master.config.values import BatchConfig, MasterConfig, ServerOptions
from master.flight.server import serving_flights
from master.metrics import ROLE
from master.records.specs import ResultsLimit
from master.server import Master, Surroundings, serving, write_ready_file
from master.store.sqlite import SqliteStore
from master.wan.sqlite_history import SqliteLinkHistory
from planner.adapt.model import Settings as AdaptationSettings
from planner.batch import Policy, SkipRule
from planner.leases import LeasePolicy
from planner.sharing.modes import Sharing
from planner.values.adapting import Adapting, Order
from planner.values.errors import InvalidDefinitionError, PlannerError
from planner.values.topology import Topology
from planner.values.topology_text import read_topology_text
from wire.errors import WireError
from wire.names import MASTER
from wire.security import PLAIN, Security

logger = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_CANNOT_START = 1

LAST_PORT = 65535
BYTES_PER_MB = 1_000_000
LONGEST_SETTING = timedelta(days=3650)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; or back up or restore the state."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in commands.COMMANDS:
        return commands.main(given)
    parsed = _parser().parse_args(given)
    logs.configure(LogFormat(parsed.log_format))
    try:
        config = _config(parsed)
    except (MasterError, PlannerError) as error:
        _complain(error.message, error.hint)
        return EXIT_CANNOT_START
    options = ServerOptions(
        parsed.listen,
        parsed.data,
        parsed.topology,
        parsed.ready_file,
        parsed.tls_dir,
        parsed.metrics_listen or "",
        *guests.addresses(parsed),
        guests.certificate(parsed),
    )
    message, hint = guests.refusal_of(options, auth=config.access.on, insecure=parsed.insecure)
    if not message and not parsed.insecure:
        message, hint = _exposed(options)
    if message:
        _complain(message, hint)
        return EXIT_CANNOT_START
    make_private_umask()
    for problem in config.validate():
        _complain(problem, "")
        return EXIT_CANNOT_START
    declare_installed()
    try:
        with tracing(ROLE, os.environ):
            asyncio.run(_serve(options, config))
    except (MasterError, PlannerError, WireError) as error:
        _complain(error.message, error.hint)
        return EXIT_CANNOT_START
    except CannotListenError as error:
        _complain(str(error), error.hint)
        return EXIT_CANNOT_START
    except OSError as error:
        _complain(str(error), "is there such a directory, and can it be written to?")
        return EXIT_CANNOT_START
    except RuntimeError as error:
        # gRPC raises this where it cannot listen.
        _complain(f"cannot listen at {options.listen}: {error}", "is the port taken? port 0 takes a free one")
        return EXIT_CANNOT_START
    return EXIT_OK


def _config(parsed: argparse.Namespace) -> MasterConfig:
    """The settings. Raises MasterError or PlannerError for options that contradict each other, and for
    invalid files."""
    exposed = parsed.insecure or is_exposed(parsed.listen)
    return MasterConfig(
        heartbeat_timeout=parsed.heartbeat_timeout,
        stop_timeout=parsed.stop_timeout,
        results_retention=parsed.results_retention,
        live_results=ResultsLimit(parsed.live_results_bytes, parsed.live_results_hours),
        epoch_interval=parsed.epoch_interval,
        ended_retention=parsed.ended_retention,
        ended_count=parsed.ended_count,
        probes=not parsed.no_probes,
        python_functions=allows_functions(parsed.python_functions, insecure=exposed),
        sharing=Sharing(parsed.sharing),
        adapting=Adapting(parsed.adaptation),
        adaptation=AdaptationSettings(order=Order(parsed.adaptation_order)),
        leases=LeasePolicy(longest=parsed.longest_lease, grace=parsed.lease_grace, fair=parsed.fair_share),
        batch=BatchConfig(
            policy=Policy(parsed.batch_scheduler),
            split_bytes=round(parsed.split_size * BYTES_PER_MB),
            skips=SkipRule(least=parsed.locality_min, longest=parsed.locality_wait),
        ),
        access=access_config(parsed),
    )


async def _serve(options: ServerOptions, config: MasterConfig) -> None:
    security = Security.of(options.tls_dir, MASTER) if options.tls_dir is not None else PLAIN
    topology = read_topology(options.topology)
    store = SqliteStore.open(options.data)
    try:
        history = SqliteLinkHistory.open(options.data)
        around = Surroundings.real(history, options.data, security)
        master = Master(store, topology, config=config, around=around)
        stop = _stop_signal()
        async with AsyncExitStack() as stack:
            metrics = ""
            if options.metrics:
                metrics = await stack.enter_async_context(serving_metrics(options.metrics, master.metrics.families))
            address = await stack.enter_async_context(serving(master, options.listen))
            clients = flights = ""
            if options.connect:
                clients = await stack.enter_async_context(_serving_clients(master, options))
            if options.flight:
                serving_guests = serving_flights(master.flight_parts(), options.flight, options.guest_certificate)
                flights = await stack.enter_async_context(serving_guests)
            logger.info(line("serving", address=address, data=options.data, sites=",".join(sorted(topology.sites))))
            if options.ready_file is not None:
                write_ready_file(options.ready_file, address, metrics=metrics, connect=clients, flight=flights)
            await stop.wait()
            logger.info("stopping")
    finally:
        store.close()


def _serving_clients(master: Master, options: ServerOptions) -> AbstractAsyncContextManager[str]:
    """Loads PySpark, which the master needs for nothing else. Raises InvalidRequestError without it."""
    try:
        from master.connect.server import serving_clients
    except ImportError as error:
        raise InvalidRequestError(
            f"--connect-port needs PySpark's classes: {error}", hint="pip install 'selat[connect]'"
        ) from error
    return serving_clients(master.client_parts(), options.connect, options.guest_certificate)


def _exposed(options: ServerOptions) -> tuple[str, str]:
    """A message and a hint when an address needs `--insecure`; two empty texts when none does."""
    message, hint = refusal("--listen", options.listen) if options.tls_dir is None else ("", "")
    if not message and options.metrics:
        return refusal("--metrics-listen", options.metrics)
    return message, hint


def read_topology(path: Path) -> Topology:
    """The topology of a YAML file.

    Raises:
        InvalidDefinitionError: it cannot be read, is no YAML, or contradicts itself.
    """
    try:
        return read_topology_text(path.read_bytes())
    except OSError as error:
        raise InvalidDefinitionError(f"cannot read topology {path}: {error.strerror}") from error
    except PlannerError as error:
        error.message = f"topology {path}: {error.message}"
        raise


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _complain(message: str, hint: str) -> None:
    sys.stderr.write(f"master: {message}\n" + (f"  hint: {hint}\n" if hint else ""))


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not port.isascii() or int(port) > LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:7410")
    return text


def _duration_in(unit: str) -> Callable[[str], timedelta]:
    def duration(text: str) -> timedelta:
        try:
            found = timedelta(**{unit: float(text)})
        except (ValueError, OverflowError):
            found = timedelta(0)
        if not timedelta(0) < found <= LONGEST_SETTING:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no number of {unit} above 0 and up to {LONGEST_SETTING / timedelta(**{unit: 1}):g}"
            )
        return found

    return duration


def _add_results_options(parser: argparse.ArgumentParser, defaults: MasterConfig) -> None:
    parser.add_argument(
        "--results-retention",
        type=_duration_in("hours"),
        default=f"{defaults.results_retention / timedelta(hours=1):g}",
        metavar="HOURS",
        help="how long results are kept after a query's end; default: %(default)s",
    )
    parser.add_argument(
        "--live-results-bytes",
        type=int,
        default=defaults.live_results.size_bytes,
        metavar="BYTES",
        help="how much the gateway keeps of a streaming query's results while it runs; default: %(default)s",
    )
    parser.add_argument(
        "--live-results-hours",
        type=_duration_in("hours"),
        default=f"{defaults.live_results.age / timedelta(hours=1):g}",
        metavar="HOURS",
        help="how long a streaming query's results are kept while it runs; default: %(default)s",
    )


def _parser() -> argparse.ArgumentParser:
    defaults = MasterConfig()
    parser = argparse.ArgumentParser(
        prog="python -m master",
        description="Run Selat's central job manager. `backup` and `restore` as first argument: see their --help.",
    )
    parser.add_argument(
        "--listen", type=_address, default="127.0.0.1:7410", metavar="HOST:PORT", help="default: %(default)s"
    )
    parser.add_argument("--metrics-listen", type=_address, metavar="HOST:PORT", help=LISTEN_HELP)
    parser.add_argument("--log-format", choices=[f.value for f in LogFormat], default="text", help=LOG_FORMAT_HELP)
    guests.add_options(parser)
    _add_wall_options(parser)
    add_access_options(parser)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where state is kept")
    parser.add_argument("--topology", type=Path, required=True, metavar="FILE", help="sites and links, in YAML")
    parser.add_argument(
        "--ready-file", type=Path, metavar="FILE", help="written once serving: address and pid, in JSON"
    )
    _add_timeouts(parser, defaults)
    _add_results_options(parser, defaults)
    parser.add_argument(
        "--ended-retention",
        type=_duration_in("hours"),
        default=f"{defaults.ended_retention / timedelta(hours=1):g}",
        metavar="HOURS",
        help="how long a query stays known after its end; default: %(default)s",
    )
    parser.add_argument(
        "--ended-count",
        type=int,
        default=defaults.ended_count,
        metavar="N",
        help="how many ended queries stay known at most; default: %(default)s",
    )
    parser.add_argument(
        "--epoch-interval",
        type=_duration_in("milliseconds"),
        default=f"{defaults.epoch_interval / timedelta(milliseconds=1):g}",
        metavar="MS",
        help="how often a task polls its input; default: %(default)s",
    )
    parser.add_argument(
        "--sharing",
        default=defaults.sharing.value,
        choices=[mode.value for mode in Sharing],
        help="what queries share without SET sharing; default: %(default)s",
    )
    _add_adaptation_options(parser, defaults)
    _add_lease_options(parser, defaults.leases)
    _add_batch_options(parser, defaults.batch)
    parser.add_argument("--no-probes", action="store_true", help="probe links only on request (selat wan probe)")
    return parser


def _add_timeouts(parser: argparse.ArgumentParser, defaults: MasterConfig) -> None:
    parser.add_argument(
        "--heartbeat-timeout",
        type=_duration_in("seconds"),
        default=f"{defaults.heartbeat_timeout / timedelta(seconds=1):g}",
        metavar="SECONDS",
        help="a site that has not reported for this time is unreachable; default: %(default)s",
    )
    parser.add_argument(
        "--stop-timeout",
        type=_duration_in("seconds"),
        default=f"{defaults.stop_timeout / timedelta(seconds=1):g}",
        metavar="SECONDS",
        help="how long calls may go on once the master is asked to stop; default: %(default)s",
    )


def _add_wall_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--insecure", action="store_true", help=INSECURE_HELP)
    parser.add_argument("--tls-dir", type=Path, metavar="DIR", help=TLS_HELP)
    parser.add_argument(
        "--python-functions",
        choices=["allow", "refuse"],
        help="whether CREATE FUNCTION is allowed; default: allow on loopback, else refuse",
    )


def _add_adaptation_options(parser: argparse.ArgumentParser, defaults: MasterConfig) -> None:
    parser.add_argument(
        "--adaptation",
        default=defaults.adapting.value,
        choices=[mode.value for mode in Adapting],
        help="what is decided, or done, about queries without SET adaptation; default: %(default)s",
    )
    parser.add_argument(
        "--adaptation-order",
        default=defaults.adaptation.order.value,
        choices=[order.value for order in Order],
        help="whom adaptation helps first: who costs least (nako), as found, or who waits longest (slo);"
        " default: %(default)s",
    )


def _add_lease_options(parser: argparse.ArgumentParser, defaults: LeasePolicy) -> None:
    parser.add_argument(
        "--longest-lease",
        type=_duration_in("minutes"),
        default=f"{defaults.longest / timedelta(minutes=1):g}",
        metavar="MINUTES",
        help="a longer lease of a slot is refused; default: %(default)s",
    )
    parser.add_argument(
        "--lease-grace",
        type=_duration_in("seconds"),
        default=f"{defaults.grace / timedelta(seconds=1):g}",
        metavar="SECONDS",
        help="how long after its expiry a lease can still be renewed; default: %(default)s",
    )
    parser.add_argument(
        "--fair-share", action="store_true", help="grant no framework more than its max-min fair share of the slots"
    )


def _add_batch_options(parser: argparse.ArgumentParser, defaults: BatchConfig) -> None:
    parser.add_argument(
        "--batch-scheduler",
        choices=[policy.value for policy in Policy],
        default=defaults.policy.value,
        help="how tasks of batch queries get their slots; default: %(default)s",
    )
    parser.add_argument(
        "--split-size",
        type=float,
        default=defaults.split_bytes / BYTES_PER_MB,
        metavar="MB",
        help="the approximate size of a split; default: %(default)g",
    )
    parser.add_argument(
        "--locality-min",
        type=float,
        default=defaults.skips.least,
        metavar="SHARE",
        help="a batch query is skipped for a while if a smaller share of its tasks would run near their input; "
        "default: %(default)s",
    )
    parser.add_argument(
        "--locality-wait",
        type=_duration_in("seconds"),
        default=f"{defaults.skips.longest / timedelta(seconds=1):g}",
        metavar="SECONDS",
        help="the longest time that a batch query is skipped; default: %(default)s",
    )


if __name__ == "__main__":
    sys.exit(main())
