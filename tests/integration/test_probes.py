"""Both ends of a measurement over loopback, with real sockets and, where it is installed, real iperf3."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import grpc
import grpc.aio
import pytest

from selat.v1 import wan_pb2 as pb
from selat.v1.wan_pb2_grpc import ProbeServiceStub, add_ProbeServiceServicer_to_server
from site_agent.probes import iperf, train
from site_agent.probes.service import ProbeServicer
from tests.needs import Lack, Need, skip, unless

NO_IPERF3 = None if iperf.installed() else Lack(Need.PACKAGES, "iperf3")
NEEDS_IPERF3 = unless(NO_IPERF3)


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """One agent that is both ends."""
    server = grpc.aio.server()
    add_ProbeServiceServicer_to_server(ProbeServicer("us", "127.0.0.1"), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def measured(address: str, method: pb.ProbeMethod.ValueType, **figures: float | str) -> pb.MeasureResponse:
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


async def test_a_train_ends_with_its_last_packet(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not when no other has come for a while: that would be never."""
    monkeypatch.setattr(train, "GAP_S", 1e6)
    response = await measured(address, pb.PROBE_METHOD_TRAIN, expected_bytes_per_s=1e6)
    assert response.bytes_per_s > 1e6


@unless(None if sys.platform == "linux" else Lack(Need.MACHINE, "Linux"))
@pytest.mark.parametrize("method", [pb.PROBE_METHOD_TRAIN, pb.PROBE_METHOD_TCP, pb.PROBE_METHOD_IPERF3])
async def test_what_comes_beside_a_probe_is_counted(address: str, method: pb.ProbeMethod.ValueType) -> None:
    if method == pb.PROBE_METHOD_IPERF3 and NO_IPERF3:
        skip(NO_IPERF3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        source = f"127.0.0.1:{listener.getsockname()[1]}"
        nothing = await measured(address, method, expected_bytes_per_s=10e6, from_address=source, duration_ms=1000)
        assert nothing.HasField("beside_bytes_per_s")
        assert nothing.beside_bytes_per_s == 0
        with _flood(listener):
            busy = await measured(address, method, expected_bytes_per_s=10e6, from_address=source, duration_ms=1000)
        assert busy.beside_bytes_per_s > 1e6
    assert not (await measured(address, method, from_address="", duration_ms=600)).HasField("beside_bytes_per_s")


@contextmanager
def _flood(listener: socket.socket) -> Iterator[None]:
    """A connection from here to the listener, over which bytes come all the time."""
    with socket.create_connection(listener.getsockname()) as reader:
        writer, _ = listener.accept()
        stop = threading.Event()

        def write() -> None:
            with suppress(OSError):
                while not stop.is_set():
                    writer.sendall(bytes(65_536))

        def read() -> None:
            with suppress(OSError):
                while reader.recv(65_536):
                    pass

        threads = [threading.Thread(target=work) for work in (write, read)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            threads[0].join()
            writer.close()
            threads[1].join()


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
