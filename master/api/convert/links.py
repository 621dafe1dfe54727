"""Links as they are sent to clients."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from contract.times import to_us
from master.base.errors import InvalidRequestError
from master.convert.reports import LARGEST_COUNT
from master.wan.agent_prober import METHODS
from master.wan.history import LinkPoint
from master.wan.monitor import Echoes, Transfer
from planner.values.topology import Topology
from planner.wan.samples import Method
from planner.wan.snapshot import LinkView
from selat.v1 import site_pb2
from selat.v1 import wan_pb2 as pb

_LONGEST_RTT_S = 3600.0
_SHORTEST_S, _LONGEST_S = 1e-3, 3600.0


def link_to_proto(link: LinkView, topology: Topology) -> pb.LinkView:
    figures = link.figures
    declared = topology.links[figures.pair]
    return pb.LinkView(
        from_site=figures.source,
        to_site=figures.target,
        capacity_bytes_per_s=figures.capacity_bytes_per_s,
        available_bytes_per_s=figures.available_bytes_per_s,
        used_bytes_per_s=link.used_bytes_per_s,
        rtt_s=_seconds(link.rtt),
        loss=link.loss,
        age_s=_seconds(figures.age),
        confidence=figures.confidence,
        method=method_to_proto(link.method),
        congested=link.congested,
        declared_bytes_per_s=declared.bandwidth_bytes_per_s,
        declared_latency_s=declared.latency.total_seconds(),
        price_per_gb=declared.price_per_gb if topology.currency else None,
        currency=topology.currency,
    )


def point_to_proto(point: LinkPoint) -> pb.LinkPoint:
    return pb.LinkPoint(
        at_us=to_us(point.at),
        capacity_bytes_per_s=point.capacity_bytes_per_s,
        used_bytes_per_s=point.used_bytes_per_s,
        rtt_s=_seconds(point.rtt),
        loss=point.loss,
        method=method_to_proto(point.method),
    )


def method_to_proto(method: Method | None) -> pb.ProbeMethod.ValueType:
    return pb.PROBE_METHOD_UNSPECIFIED if method is None else METHODS[method]


def echoes_from_proto(report: site_pb2.ReportRequest) -> Iterator[tuple[str, Echoes]]:
    """The echoes by the site that they were sent to. Raises InvalidRequestError for impossible figures."""
    for echo in report.echoes:
        rtt_s = echo.rtt_s if echo.HasField("rtt_s") else None
        if echo.lost > echo.sent or (rtt_s is not None and not 0 <= rtt_s < _LONGEST_RTT_S):
            raise InvalidRequestError(
                f"LinkEcho to {echo.to_site} of site {report.site} makes no sense",
                hint="lost is at most sent, rtt_s from 0 to an hour",
                ids={"site": report.site},
            )
        yield echo.to_site, Echoes(echo.sent, echo.lost, None if rtt_s is None else timedelta(seconds=rtt_s))


def transfers_from_proto(report: site_pb2.ReportRequest) -> Iterator[tuple[str, Transfer]]:
    """The transfers by the site that they came from. Raises InvalidRequestError for impossible figures."""
    for transfer in report.transfers:
        possible = _SHORTEST_S <= transfer.duration_s <= _LONGEST_S and 0 <= transfer.age_s <= _LONGEST_S
        if not possible or transfer.bytes > LARGEST_COUNT:
            raise InvalidRequestError(
                f"LinkTransfer from {transfer.from_site} to site {report.site} makes no sense",
                hint="duration_s is from a millisecond to an hour, age_s at most an hour",
                ids={"site": report.site},
            )
        duration, age = timedelta(seconds=transfer.duration_s), timedelta(seconds=transfer.age_s)
        yield transfer.from_site, Transfer(transfer.bytes, duration, age, transfer.link_bound)


def _seconds(time: timedelta | None) -> float | None:
    return None if time is None else time.total_seconds()
