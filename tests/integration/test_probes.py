"""Both ends of a measurement over loopback, with real sockets and, where it is installed, real iperf3."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest

from selat.v1 import wan_pb2 as pb
from selat.v1.wan_pb2_grpc import ProbeServiceStub, add_ProbeServiceServicer_to_server
from site_agent.probes import iperf
from site_agent.probes.service import ProbeServicer

NEEDS_IPERF3 = pytest.mark.skipif(not iperf.installed(), reason="iperf3 is not installed")


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """One agent that is both ends."""
    server = grpc.aio.server()
    add_ProbeServiceServicer_to_server(ProbeServicer("us", "127.0.0.1"), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def measured(address: str, method: pb.ProbeMethod.ValueType, **figures: float) -> pb.MeasureResponse:
    request = pb.MeasureRequest(to_site="eu", address=address, method=method, duration_ms=300)
    for name, value in figures.items():
        setattr(request, name, value)
    async with grpc.aio.insecure_channel(address) as channel:
        response: pb.MeasureResponse = await ProbeServiceStub(channel).Measure(request, timeout=60)
        return response


async def test_a_train(address: str) -> None:
    response = await measured(address, pb.PROBE_METHOD_TRAIN, expected_bytes_per_s=10e6)
    assert response.method == pb.PROBE_METHOD_TRAIN
    assert response.bytes_per_s > 10e6
    assert response.bytes_sent == pytest.approx(3e6, rel=0.01)


async def test_our_own_transfer(address: str) -> None:
    response = await measured(address, pb.PROBE_METHOD_TCP, duration_ms=600)
    assert response.method == pb.PROBE_METHOD_TCP
    assert response.bytes_per_s > 10e6
    assert response.bytes_sent > 1e6


@NEEDS_IPERF3
async def test_iperf3(address: str) -> None:
    response = await measured(address, pb.PROBE_METHOD_IPERF3, duration_ms=1000)
    assert response.method == pb.PROBE_METHOD_IPERF3
    assert response.bytes_per_s > 10e6
    assert not response.note


async def test_without_iperf3_our_own_transfer_is_used_and_said(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iperf, "PROGRAM", "no-such-program")
    response = await measured(address, pb.PROBE_METHOD_IPERF3, duration_ms=600)
    assert response.method == pb.PROBE_METHOD_TCP
    assert "iperf3 is not installed at us" in response.note


@pytest.mark.parametrize(
    ("method", "figures", "code"),
    [
        (pb.PROBE_METHOD_PASSIVE, {}, grpc.StatusCode.INVALID_ARGUMENT),
        (pb.PROBE_METHOD_TRAIN, {"duration_ms": 0}, grpc.StatusCode.INVALID_ARGUMENT),
        (pb.PROBE_METHOD_TRAIN, {"duration_ms": 60_000}, grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_what_cannot_be_measured(
    address: str, method: pb.ProbeMethod.ValueType, figures: dict[str, float], code: grpc.StatusCode
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await measured(address, method, **figures)
    assert caught.value.code() is code


async def test_nobody_at_the_other_end(address: str) -> None:
    request = pb.MeasureRequest(to_site="eu", address="127.0.0.1:1", method=pb.PROBE_METHOD_TRAIN, duration_ms=100)
    async with grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ProbeServiceStub(channel).Measure(request, timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "us to eu" in str(caught.value.details())


async def test_echo(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        assert (await ProbeServiceStub(channel).Echo(pb.EchoRequest(payload=b"x"))).payload == b"x"
        with pytest.raises(grpc.aio.AioRpcError):
            await ProbeServiceStub(channel).Echo(pb.EchoRequest(payload=bytes(100_000)))
