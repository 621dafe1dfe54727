"""ProbeService: the beginning and the end of a measurement.

master --Measure--> agent at the link's beginning --Receive--> agent at its end
                                                  ==probe====>
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from selat.v1 import wan_pb2 as pb
from selat.v1.wan_pb2_grpc import ProbeServiceServicer, ProbeServiceStub
from site_agent.errors import SiteAgentError
from site_agent.probes import bulk, iperf, train

Context = grpc.aio.ServicerContext[Any, Any]

MOST_DURATION_S = 10.0
_TOKEN_BYTES = 16
_LONGEST_WAIT_S = 60.0
_SLACK_S = 20.0
_MOST_ECHO_BYTES = 64 * 1024
_NO_IPERF3 = "iperf3 is not installed at {site}: measured by our own transfer over TCP"


_ENDS = {
    pb.PROBE_METHOD_TRAIN: (train.open_receiver, train.receive),
    pb.PROBE_METHOD_TCP: (bulk.open_listener, bulk.receive),
}
"""How the end of a link opens and receives our own probes."""


class ProbeServicer(ProbeServiceServicer):
    """One measurement at a time at each end: two would measure one another."""

    def __init__(self, site: str, host: str) -> None:
        """`host` is where this agent is reached."""
        self._site = site
        self._host = host
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
                responses = self._serve_iperf(timeout_s)
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
        async with grpc.aio.insecure_channel(request.address, options=(("grpc.enable_http_proxy", 0),)) as channel:
            sender = _Sender(ProbeServiceStub(channel), request, duration_s)
            response = await sender.run(self._site)
        response.took_s = time.monotonic() - started_s
        return response

    async def _receive(self, request: pb.ReceiveRequest, timeout_s: float) -> AsyncIterator[pb.ReceiveResponse]:
        open_end, receive = _ENDS[request.method]
        with open_end(self._host) as opened:
            yield pb.ReceiveResponse(receiving=pb.Receiving(port=opened.getsockname()[1]))
            arrived = await asyncio.to_thread(receive, opened, request.token, timeout_s)
        yield pb.ReceiveResponse(received=pb.Received(bytes=arrived.bytes, bytes_per_s=arrived.rate_bytes_per_s or 0.0))

    async def _serve_iperf(self, timeout_s: float) -> AsyncIterator[pb.ReceiveResponse]:
        port = iperf.free_port(self._host)
        server = await iperf.start_server(self._host, port)
        try:
            yield pb.ReceiveResponse(receiving=pb.Receiving(port=port))
            async with asyncio.timeout(timeout_s):
                await server.wait()
        except TimeoutError:
            # Nobody came; the sender knows by itself.
            pass
        finally:
            await iperf.stop(server)
        yield pb.ReceiveResponse(received=pb.Received())


class _Sender:
    """The beginning of one measurement."""

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
        finally:
            call.cancel()
        return pb.MeasureResponse(
            method=pb.PROBE_METHOD_IPERF3, bytes_per_s=result.rate_bytes_per_s, bytes_sent=result.bytes_sent
        )

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
        return pb.MeasureResponse(method=method, bytes_per_s=received.bytes_per_s, bytes_sent=sent, note=note)

    def _send(self, method: pb.ProbeMethod.ValueType, port: int) -> int:
        if method == pb.PROBE_METHOD_TRAIN:
            count = train.packets_for(self._request.expected_bytes_per_s, self._duration_s)
            return train.send(self._host, port, self._token, count)
        return bulk.send((self._host, port), self._token, self._duration_s)

    def _receive(self, method: pb.ProbeMethod.ValueType) -> Any:
        timeout_ms = int((self._duration_s + _SLACK_S) * 1000)
        request = pb.ReceiveRequest(method=method, token=self._token, timeout_ms=timeout_ms)
        return self._peer.Receive(request, timeout=self._duration_s + 2 * _SLACK_S)


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
