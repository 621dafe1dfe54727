"""Asks the agent at the beginning of a link to measure it."""

from __future__ import annotations

from datetime import timedelta

import grpc.aio

from master.base.errors import ProbeFailedError
from master.sites.peers import Peers
from master.sites.status import Sites
from master.wan.monitor import Measured
from planner.wan.probing import Probe, ProbeKind
from planner.wan.samples import Method
from selat.v1 import wan_pb2 as pb
from selat.v1.wan_pb2_grpc import ProbeServiceStub

METHODS = {
    Method.PASSIVE: pb.PROBE_METHOD_PASSIVE,
    Method.TRAIN: pb.PROBE_METHOD_TRAIN,
    Method.IPERF3: pb.PROBE_METHOD_IPERF3,
    Method.TCP: pb.PROBE_METHOD_TCP,
}
_METHODS_BACK = {wire: method for method, wire in METHODS.items()}
_SLACK_S = 60.0


class AgentProber:
    """See `master.wan.monitor.Prober`."""

    def __init__(self, sites: Sites, peers: Peers) -> None:
        self._sites = sites
        self._peers = peers

    async def measure(self, probe: Probe, expected_bytes_per_s: float) -> Measured:
        source, target = probe.pair
        addresses = self._sites.addresses()
        for site in probe.pair:
            if site not in addresses:
                raise ProbeFailedError(f"site {site} has not connected yet", hint="selat site list", ids={"site": site})
        duration_s = probe.duration.total_seconds()
        request = pb.MeasureRequest(
            to_site=target,
            address=addresses[target],
            method=pb.PROBE_METHOD_IPERF3 if probe.kind is ProbeKind.FULL else pb.PROBE_METHOD_TRAIN,
            duration_ms=round(duration_s * 1000),
            expected_bytes_per_s=expected_bytes_per_s,
            from_address=addresses[source],
        )
        stub = ProbeServiceStub(self._peers.channel(source, addresses[source]))
        try:
            response = await stub.Measure(request, timeout=duration_s + _SLACK_S)
        except grpc.aio.AioRpcError as error:
            raise ProbeFailedError(
                f"{source} to {target} could not be measured: {error.details()}",
                hint="is the link severed, or one of the agents down?",
                ids={"from": source, "to": target},
            ) from error
        return Measured(
            method=_METHODS_BACK.get(response.method, Method.TCP),
            bytes_per_s=response.bytes_per_s,
            bytes_sent=response.bytes_sent,
            took=timedelta(seconds=response.took_s),
            note=response.note,
            beside_bytes_per_s=response.beside_bytes_per_s if response.HasField("beside_bytes_per_s") else None,
        )
