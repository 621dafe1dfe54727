"""ProbeService: both ends of a measurement.

master --Measure--> agent at the link's beginning --Receive--> agent at its end
                                                  ==probe====>
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from selat.v1 import wan_pb2 as pb
from selat.v1.wan_pb2_grpc import ProbeServiceServicer, ProbeServiceStub
from site_agent.base.errors import SiteAgentError
from site_agent.exchange.options import Connect, connect
from site_agent.probes import bulk, iperf, train
from site_agent.probes.beside import Meter, from_peer, to_port

Context = grpc.aio.ServicerContext[Any, Any]

MOST_DURATION_S = 10.0
_TOKEN_BYTES = 16
_LONGEST_WAIT_S = 60.0
_SLACK_S = 20.0
_LOOK_S = 0.05
"""Seconds between two readings of the other traffic during a full probe."""
_MOST_ECHO_BYTES = 64 * 1024
_NO_IPERF3 = "iperf3 is not installed at {site}: measured by our own transfer over TCP"


_ENDS = {
    pb.PROBE_METHOD_TRAIN: (train.open_receiver, train.receive),
    pb.PROBE_METHOD_TCP: (bulk.open_listener, bulk.receive),
}
"""How the receiving end of a link opens and receives each kind of probe."""


class ProbeServicer(ProbeServiceServicer):
    """Runs one measurement at a time at each end: two would measure one another."""

    def __init__(self, site: str, host: str, connect: Connect = connect) -> None:
        """`host` is where this agent is reached."""
        self._connect = connect
        self._site = site
        self._host = host
        self._peers: dict[str, tuple[str, grpc.aio.Channel]] = {}
        self._sending = asyncio.Lock()
        self._receiving = asyncio.Lock()

    async def Measure(self, request: pb.MeasureRequest, context: Context) -> pb.MeasureResponse:  # noqa: N802
        duration_s = request.duration_ms / 1000
        if not 0 < duration_s <= MOST_DURATION_S:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"duration_ms is {request.duration_ms}; 1 to 10000 are possible"
            )
        if request.method not in (*_ENDS, pb.PROBE_METHOD_IPERF3):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "method must be TRAIN, IPERF3 or TCP")
        try:
            async with self._sending:
                return await self._measure(request, duration_s)
        except (SiteAgentError, OSError) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{self._site} to {request.to_site}: {error}")
        except grpc.aio.AioRpcError as error:
            reason = f"{self._site} to {request.to_site}: {error.code().name} {error.details()}"
            await context.abort(grpc.StatusCode.UNAVAILABLE, reason)

    async def Receive(self, request: pb.ReceiveRequest, context: Context) -> AsyncIterator[pb.ReceiveResponse]:  # noqa: N802
        if len(request.token) != _TOKEN_BYTES:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"token must have {_TOKEN_BYTES} bytes")
        if request.method not in (*_ENDS, pb.PROBE_METHOD_IPERF3):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "method must be TRAIN, IPERF3 or TCP")
        if request.method == pb.PROBE_METHOD_IPERF3 and not iperf.installed():
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, _NO_IPERF3.format(site=self._site))
        timeout_s = min(_LONGEST_WAIT_S, max(1.0, request.timeout_ms / 1000))
        async with self._receiving:
            if request.method == pb.PROBE_METHOD_IPERF3:
                responses = self._serve_iperf(request, timeout_s)
            else:
                responses = self._receive(request, timeout_s)
            async for response in responses:
                yield response

    async def Echo(self, request: pb.EchoRequest, context: Context) -> pb.EchoResponse:  # noqa: N802
        if len(request.payload) > _MOST_ECHO_BYTES:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"at most {_MOST_ECHO_BYTES} bytes are echoed")
        return pb.EchoResponse(payload=request.payload)

    async def _measure(self, request: pb.MeasureRequest, duration_s: float) -> pb.MeasureResponse:
        started_s = time.monotonic()
        sender = _Sender(ProbeServiceStub(await self._peer(request.to_site, request.address)), request, duration_s)
        response = await sender.run(self._site)
        response.took_s = time.monotonic() - started_s
        return response

    async def _peer(self, site: str, address: str) -> grpc.aio.Channel:
        """A connection that is kept open: making a new one would take longer than a train."""
        known = self._peers.get(site)
        if known is not None and known[0] == address:
            return known[1]
        channel = self._connect(address, site)
        self._peers[site] = address, channel
        if known is not None:
            await known[1].close(None)
        return channel

    async def close(self) -> None:
        """Close the connections to other sites."""
        for _, channel in self._peers.values():
            await channel.close(None)
        self._peers.clear()

    async def _receive(self, request: pb.ReceiveRequest, timeout_s: float) -> AsyncIterator[pb.ReceiveResponse]:
        open_end, receive = _ENDS[request.method]
        beside = Meter(from_peer(await _resolved(request.from_address)))
        beside.note()
        with open_end(self._host) as opened:
            yield pb.ReceiveResponse(receiving=pb.Receiving(port=opened.getsockname()[1]))
            arrived = await asyncio.to_thread(receive, opened, request.token, timeout_s, beside.note)
        received = pb.Received(bytes=arrived.bytes, bytes_per_s=arrived.rate_bytes_per_s or 0.0)
        yield pb.ReceiveResponse(received=_with_beside(received, beside, arrived.steady))

    async def _serve_iperf(self, request: pb.ReceiveRequest, timeout_s: float) -> AsyncIterator[pb.ReceiveResponse]:
        port = iperf.free_port(self._host)
        server = await iperf.start_server(self._host, port)
        own, beside = Meter(to_port(port)), Meter(from_peer(await _resolved(request.from_address)))
        try:
            yield pb.ReceiveResponse(receiving=pb.Receiving(port=port))
            async with asyncio.timeout(timeout_s):
                while server.returncode is None:
                    own.note()
                    beside.note()
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            # No sender connected; the sender notices that itself.
            pass
        finally:
            await iperf.stop(server)
        yield pb.ReceiveResponse(received=_with_beside(pb.Received(), beside, own.steady()))


class _Sender:
    """The sending end of one measurement."""

    def __init__(self, peer: Any, request: pb.MeasureRequest, duration_s: float) -> None:
        self._peer = peer
        self._request = request
        self._duration_s = duration_s
        self._host = request.address.rpartition(":")[0].strip("[]")
        self._token = secrets.token_bytes(_TOKEN_BYTES)

    async def run(self, site: str) -> pb.MeasureResponse:
        if self._request.method == pb.PROBE_METHOD_TRAIN:
            return await self._with_own(pb.PROBE_METHOD_TRAIN, "")
        if self._request.method == pb.PROBE_METHOD_TCP:
            return await self._with_own(pb.PROBE_METHOD_TCP, "")
        if not iperf.installed():
            return await self._with_own(pb.PROBE_METHOD_TCP, _NO_IPERF3.format(site=site))
        try:
            return await self._with_iperf()
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            return await self._with_own(pb.PROBE_METHOD_TCP, _NO_IPERF3.format(site=self._request.to_site))

    async def _with_iperf(self) -> pb.MeasureResponse:
        call = self._receive(pb.PROBE_METHOD_IPERF3)
        try:
            port = await _port(call)
            result = await iperf.run_client(self._host, port, self._duration_s)
            received = await _received(call)
        finally:
            call.cancel()
        response = pb.MeasureResponse(
            method=pb.PROBE_METHOD_IPERF3, bytes_per_s=result.rate_bytes_per_s, bytes_sent=result.bytes_sent
        )
        return _taken_over(response, received)

    async def _with_own(self, method: pb.ProbeMethod.ValueType, note: str) -> pb.MeasureResponse:
        call = self._receive(method)
        try:
            port = await _port(call)
            sent = await asyncio.to_thread(self._send, method, port)
            received = await _received(call)
        finally:
            call.cancel()
        if not received.bytes_per_s:
            raise SiteAgentError("too little arrived to tell", hint="is the link severed?")
        response = pb.MeasureResponse(method=method, bytes_per_s=received.bytes_per_s, bytes_sent=sent, note=note)
        return _taken_over(response, received)

    def _send(self, method: pb.ProbeMethod.ValueType, port: int) -> int:
        if method == pb.PROBE_METHOD_TRAIN:
            count = train.packets_for(self._request.expected_bytes_per_s, self._duration_s)
            return train.send(self._host, port, self._token, count)
        return bulk.send((self._host, port), self._token, self._duration_s)

    def _receive(self, method: pb.ProbeMethod.ValueType) -> Any:
        timeout_ms = int((self._duration_s + _SLACK_S) * 1000)
        request = pb.ReceiveRequest(
            method=method, token=self._token, timeout_ms=timeout_ms, from_address=self._request.from_address
        )
        return self._peer.Receive(request, timeout=self._duration_s + 2 * _SLACK_S)


async def _resolved(address: str) -> str:
    """host:port with the host's IP address; empty when it has none."""
    host, _, port = address.rpartition(":")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""
    return f"{found[0][4][0]}:{port}"


def _with_beside(received: pb.Received, beside: Meter, steady: tuple[float, float] | None) -> pb.Received:
    """The response with the rate of other traffic during the probe's steady part, if it is known."""
    beside.note()
    rate = beside.bytes_per_s(*steady) if steady is not None else None
    if rate is not None:
        received.beside_bytes_per_s = rate
    return received


def _taken_over(response: pb.MeasureResponse, received: pb.Received) -> pb.MeasureResponse:
    if received.HasField("beside_bytes_per_s"):
        response.beside_bytes_per_s = received.beside_bytes_per_s
    return response


async def _port(call: Any) -> int:
    async for response in call:
        return int(response.receiving.port)
    raise SiteAgentError("the other end does not receive", hint="is it an agent of the same version?")


async def _received(call: Any) -> pb.Received:
    async for response in call:
        if response.WhichOneof("message") == "received":
            received: pb.Received = response.received
            return received
    raise SiteAgentError("the other end does not say what arrived", hint="is it an agent of the same version?")
