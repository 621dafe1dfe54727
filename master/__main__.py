"""`python -m master`: run the central job manager."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import yaml

from master import logs
from master.config import MasterConfig, ServerOptions
from master.errors import MasterError
from master.logs import line
from master.server import Master, Surroundings, serving, write_ready_file
from master.store.sqlite import SqliteStore
from planner.errors import InvalidDefinitionError, PlannerError
from planner.topology import Topology, parse_topology

logger = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_CANNOT_START = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT."""
    logs.configure()
    parsed = _parser().parse_args(arguments)
    config = MasterConfig(
        heartbeat_timeout=timedelta(seconds=parsed.heartbeat_timeout),
        results_retention=timedelta(hours=parsed.results_retention),
        epoch_interval=timedelta(milliseconds=parsed.epoch_interval),
    )
    options = ServerOptions(parsed.listen, parsed.data, parsed.topology, parsed.ready_file)
    for problem in config.validate():
        _complain(problem, "")
        return EXIT_CANNOT_START
    try:
        asyncio.run(_serve(options, config))
    except (MasterError, PlannerError) as error:
        _complain(error.message, error.hint)
        return EXIT_CANNOT_START
    except (OSError, RuntimeError) as error:
        _complain(str(error), "is the address free, and the data directory writable?")
        return EXIT_CANNOT_START
    return EXIT_OK


async def _serve(options: ServerOptions, config: MasterConfig) -> None:
    topology = read_topology(options.topology)
    store = SqliteStore.open(options.data)
    try:
        master = Master(store, topology, config=config, around=Surroundings.real())
        stop = _stop_signal()
        async with serving(master, options.listen) as address:
            logger.info(line("serving", address=address, data=options.data, sites=",".join(sorted(topology.sites))))
            if options.ready_file is not None:
                write_ready_file(options.ready_file, address)
            await stop.wait()
            logger.info("stopping")
    finally:
        store.close()


def read_topology(path: Path) -> Topology:
    """The topology of a YAML file.

    Raises:
        InvalidDefinitionError: it cannot be read, is no YAML, or contradicts itself.
    """
    try:
        value = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InvalidDefinitionError(f"cannot read topology {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise InvalidDefinitionError(f"topology {path} is no YAML: {error}") from error
    return parse_topology(value)


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _complain(message: str, hint: str) -> None:
    sys.stderr.write(f"master: {message}\n" + (f"  hint: {hint}\n" if hint else ""))


def _parser() -> argparse.ArgumentParser:
    defaults = MasterConfig()
    parser = argparse.ArgumentParser(prog="python -m master", description="Run Selat's central job manager.")
    parser.add_argument("--listen", default="127.0.0.1:7410", metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where state is kept")
    parser.add_argument("--topology", type=Path, required=True, metavar="FILE", help="sites and links, in YAML")
    parser.add_argument(
        "--ready-file", type=Path, metavar="FILE", help="written once serving: address and pid, in JSON"
    )
    parser.add_argument(
        "--heartbeat-timeout",
        type=float,
        default=defaults.heartbeat_timeout.total_seconds(),
        metavar="SECONDS",
        help="a site silent for so long is unreachable; default: %(default)s",
    )
    parser.add_argument(
        "--results-retention",
        type=float,
        default=defaults.results_retention / timedelta(hours=1),
        metavar="HOURS",
        help="how long results are kept after a query's end; default: %(default)s",
    )
    parser.add_argument(
        "--epoch-interval",
        type=int,
        default=defaults.epoch_interval // timedelta(milliseconds=1),
        metavar="MS",
        help="how often a task looks for input; default: %(default)s",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
