"""Links between sites as the master knows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from selat.client.calls import Calls
from selat.convert.times import to_datetime
from selat.v1 import wan_pb2
from selat.v1 import wan_pb2 as pb


class ProbeMethod(Enum):
    """How a bandwidth was measured."""

    PASSIVE = "passive"
    """From transfers that had more to send than the link carried."""
    TRAIN = "train"
    """A short burst of packets."""
    IPERF3 = "iperf3"
    TCP = "tcp"
    """The agents' own transfer, where iperf3 is not installed."""


@dataclass(frozen=True, slots=True)
class LinkView:
    """One directed link as it is known now. Rates are payload of TCP."""

    from_site: str
    to_site: str
    capacity_bytes_per_s: float
    """Capacity for our transfers: as measured, or as declared when it never was."""
    available_bytes_per_s: float
    """Bandwidth that is left for new transfers."""
    used_bytes_per_s: float
    rtt: timedelta | None
    loss: float
    """Share of echoes lost, 0 to 1."""
    age: timedelta | None
    """Time since the bandwidth was last measured; None: it never was, and the capacity is the topology file's."""
    confidence: float
    """0 (nothing was measured) to 1."""
    method: ProbeMethod | None
    congested: bool
    declared_bytes_per_s: float
    declared_latency: timedelta
    price_per_gb: float | None = None
    """The price of 10^9 bytes, in `currency`; None: the topology file has no prices."""
    currency: str = ""


@dataclass(frozen=True, slots=True)
class LinkPoint:
    """One link at one moment of its history."""

    at: datetime
    capacity_bytes_per_s: float
    """0: it had not been measured by then."""
    used_bytes_per_s: float
    rtt: timedelta | None
    loss: float
    method: ProbeMethod | None
    """None: no bandwidth was measured at this moment."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One measurement that was asked for."""

    link: LinkView
    """The link after the measurement."""
    method: ProbeMethod | None
    bytes_per_s: float
    """The bandwidth that the measurement alone found, beside all other traffic."""
    bytes_sent: int
    took: timedelta
    note: str
    """A remark for the user, such as that iperf3 is missing."""


_METHODS = {
    pb.PROBE_METHOD_PASSIVE: ProbeMethod.PASSIVE,
    pb.PROBE_METHOD_TRAIN: ProbeMethod.TRAIN,
    pb.PROBE_METHOD_IPERF3: ProbeMethod.IPERF3,
    pb.PROBE_METHOD_TCP: ProbeMethod.TCP,
}


def link_view(message: pb.LinkView) -> LinkView:
    return LinkView(
        from_site=message.from_site,
        to_site=message.to_site,
        capacity_bytes_per_s=message.capacity_bytes_per_s,
        available_bytes_per_s=message.available_bytes_per_s,
        used_bytes_per_s=message.used_bytes_per_s,
        rtt=timedelta(seconds=message.rtt_s) if message.HasField("rtt_s") else None,
        loss=message.loss,
        age=timedelta(seconds=message.age_s) if message.HasField("age_s") else None,
        confidence=message.confidence,
        method=_METHODS.get(message.method),
        congested=message.congested,
        declared_bytes_per_s=message.declared_bytes_per_s,
        declared_latency=timedelta(seconds=message.declared_latency_s),
        price_per_gb=message.price_per_gb if message.HasField("price_per_gb") else None,
        currency=message.currency,
    )


def link_point(message: pb.LinkPoint) -> LinkPoint:
    return LinkPoint(
        at=to_datetime(message.at_us),
        capacity_bytes_per_s=message.capacity_bytes_per_s,
        used_bytes_per_s=message.used_bytes_per_s,
        rtt=timedelta(seconds=message.rtt_s) if message.HasField("rtt_s") else None,
        loss=message.loss,
        method=_METHODS.get(message.method),
    )


def probe_result(message: pb.ProbeLinkResponse) -> ProbeResult:
    return ProbeResult(
        link=link_view(message.link),
        method=_METHODS.get(message.method),
        bytes_per_s=message.bytes_per_s,
        bytes_sent=message.bytes_sent,
        took=timedelta(seconds=message.took_s),
        note=message.note,
    )


_PROBE = timedelta(minutes=3)
"""A probe may have to wait for others at its sites."""


class LinkCalls(Calls):
    """Links between sites."""

    def links(self) -> list[LinkView]:
        """Every directed link between two sites as it is known now, measured or declared."""
        answer = self._session.ask(self._session.wan.ListLinks, wan_pb2.ListLinksRequest())
        return [link_view(link) for link in answer.links]

    def link_history(self, from_site: str, to_site: str, *, last: timedelta = timedelta(hours=1)) -> list[LinkPoint]:
        """What was measured of a link lately, oldest first. Raises NotFound."""
        request = wan_pb2.GetLinkHistoryRequest(from_site=from_site, to_site=to_site, last_s=last.total_seconds())
        return [link_point(p) for p in self._session.ask(self._session.wan.GetLinkHistory, request).points]

    def probe_link(self, from_site: str, to_site: str) -> ProbeResult:
        """Measures a link now, thoroughly: fills it for a second or two. Raises NotFound, Unavailable."""
        request = wan_pb2.ProbeLinkRequest(from_site=from_site, to_site=to_site)
        return probe_result(self._session.ask(self._session.wan.ProbeLink, request, wait=_PROBE))
