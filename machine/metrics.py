"""Metrics in Prometheus' format: families described as data, values filled in, and the endpoint that serves them.

A process lists its families in a table of `Metric`. At each scrape a `Sheet` of that table is filled from a snapshot,
so that what has ended leaves no series behind.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from socketserver import ThreadingMixIn
from typing import Any, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, core, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from machine.durations import Distribution

logger = logging.getLogger(__name__)

Family: TypeAlias = core.Metric
"""A family of series with their values, as the library has it."""

PATH = "/metrics"
LISTEN_HELP = "serve metrics there over HTTP, for Prometheus; port 0 takes a free one (default: not served)"

_PATIENCE_S = 5.0
"""After this long a scrape is answered with 503: Prometheus gives up after 10 s."""
_CLIENT_TIMEOUT_S = 10.0


class Kind(Enum):
    """The types of metrics that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A family of series, as docs/metrics.md lists it."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    unit: str
    meaning: str


class CannotListenError(Exception):
    """The address for metrics cannot be listened at. The message says why, `hint` what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Sheet:
    """The families of a table, to be filled with values once."""

    def __init__(self, table: Iterable[Metric]) -> None:
        self._families = {metric.name: _family(metric) for metric in table}

    def put(self, name: str, value: float, *labels: str) -> None:
        """Add a series. Raises KeyError for a name that is not in the table."""
        self._families[name].add_metric(labels, value)

    def put_one_of(self, name: str, states: Iterable[str], state: str, *labels: str) -> None:
        """Add a series for each state: 1 for the one that holds, 0 for the others."""
        for each in states:
            self.put(name, float(each == state), *labels, each)

    def put_durations(self, name: str, durations: Mapping[tuple[str, ...], Distribution]) -> None:
        """Add a histogram for each choice of labels."""
        for labels, found in durations.items():
            buckets = [(f"{bound:g}", float(count)) for bound, count in found.up_to]
            self._families[name].add_metric(labels, [*buckets, ("+Inf", float(found.count))], found.sum_s)

    def families(self) -> Sequence[Family]:
        """The families that have at least one series."""
        return [family for family in self._families.values() if family.samples]


def markdown(table: Iterable[Metric]) -> str:
    """The table as docs/metrics.md has it."""
    rows = [
        f"| `{m.name}` | {m.kind.value} | {', '.join(f'`{label}`' for label in m.labels)} | {m.unit} | {m.meaning} |"
        for m in table
    ]
    return "\n".join(["| name | type | labels | unit | meaning |", "|---|---|---|---|---|", *rows])


@asynccontextmanager
async def serving_metrics(address: str, collect: Callable[[], Iterable[Family]]) -> AsyncIterator[str]:
    """Serve at HOST:PORT until the block ends; gives the address that was bound.

    `collect` is called on the event loop, once for each scrape, and must not block.

    Raises:
        CannotListenError: the address cannot be listened at.
    """
    registry = CollectorRegistry()
    registry.register(_OnLoop(asyncio.get_running_loop(), collect))
    ProcessCollector(registry=registry)
    server = await asyncio.to_thread(_bound, address)
    server.set_app(_application(registry))
    serving = asyncio.create_task(asyncio.to_thread(server.serve_forever, 0.1))
    try:
        yield f"{address.rpartition(':')[0]}:{server.server_port}"
    finally:
        await asyncio.to_thread(server.shutdown)
        await serving
        server.server_close()


def _family(metric: Metric) -> Any:
    made = {
        Kind.COUNTER: CounterMetricFamily,
        Kind.GAUGE: GaugeMetricFamily,
        Kind.HISTOGRAM: HistogramMetricFamily,
    }[metric.kind]
    return made(metric.name, metric.meaning, labels=metric.labels)


class _OnLoop(Collector):
    """Collects on the event loop, which owns what is read; scrapes come on threads of the server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, collect: Callable[[], Iterable[Family]]) -> None:
        self._loop = loop
        self._collect = collect

    def collect(self) -> Iterable[Family]:
        """Raises TimeoutError when the event loop is busy."""
        return asyncio.run_coroutine_threadsafe(self._collected(), self._loop).result(_PATIENCE_S)

    async def _collected(self) -> Sequence[Family]:
        return list(self._collect())


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the failure, unless the client closed the connection."""
        if not isinstance(sys.exception(), OSError):
            logger.exception("scrape failed")


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _CLIENT_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are not logged."""


def _bound(address: str) -> _Server:
    host, _, port = address.rpartition(":")
    try:
        family, _, _, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        made = _Server6 if family is socket.AF_INET6 else _Server
        return made((str(place[0]), int(place[1])), _Handler)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotListenError(
            f"cannot serve metrics at {address}: {reason}", "is the port taken? port 0 takes a free one"
        ) from error


def _application(registry: CollectorRegistry) -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    exposed = make_wsgi_app(registry, disable_compression=True)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != PATH:
            return _say(start_response, "404 Not Found", f"the metrics are at {PATH}")
        try:
            return exposed(environ, start_response)  # type: ignore[no-any-return, unused-ignore]
        except TimeoutError:
            return _say(start_response, "503 Service Unavailable", f"busy for {_PATIENCE_S:g} s")
        except Exception:
            logger.exception("scrape failed")
            return _say(start_response, "500 Internal Server Error", "the log says more")

    return answer


def _say(start_response: Callable[..., Any], status: str, text: str) -> Iterable[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
