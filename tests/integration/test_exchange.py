"""The exchange service over real gRPC."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
import pyarrow as pa
import pytest

from contract.trailers import received_detail
from selat.v1 import exchange_pb2 as pb
from selat.v1.exchange_pb2_grpc import ExchangeServiceStub
from site_agent.channels.codec import decode
from site_agent.channels.manifest import EndMark
from site_agent.channels.reuse import digest_of
from site_agent.exchange.options import connect
from tests.integration.exchange_sites import CHANNEL, PullCall, epochs_in, eventually, noise, numbers, pulled, sites

pytestmark = pytest.mark.timeout(120)


async def test_a_client_reads_what_is_there_and_retains_nothing(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        log.publish(0, numbers(0, 3), watermark_us=10, commit={"offset": 1})
        log.publish(1, None, watermark_us=20, idle=True)
        log.publish(2, numbers(3, 2), watermark_us=30)
        responses = await pulled(ewr)
        assert [r.WhichOneof("message") for r in responses] == ["schema", "part", "part", "part"]
        manifests = [epoch.manifest for epoch in epochs_in(responses)]
        assert [(m.epoch, m.rows, m.watermark_us, m.idle) for m in manifests] == [
            (0, 3, 10, False),
            (1, 0, 20, True),
            (2, 2, 30, False),
        ]
        assert manifests[0].commit == {}
        assert log.readers.consumers == ()
        log.finish_as(EndMark(2, "next.one", "jfk"))
        (*_, last) = await pulled(ewr, from_epoch=2, follow=True)
        assert last.end == pb.EndOfChannel(last_epoch=2, successor_channel="next.one", successor_site="jfk")
        # A reader that has come further in the next one is sent there again.
        assert await pulled(ewr, from_epoch=9, follow=True) == [last]


async def test_columns_and_bins_are_selected_where_the_data_are(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        table = pa.table({"k": list("abcdef"), "n": range(6), "_bin": pa.array([2, 0, 2, 1, 0, 5], pa.int32())})
        log.publish(0, table, watermark_us=None)
        log.publish(1, pa.table({"k": ["z"], "n": [9], "_bin": pa.array([1], pa.int32())}), watermark_us=None)
        responses = await pulled(ewr, columns=["n"], bins=[2, 0])
        part, nothing = epochs_in(responses)
        assert part.encoded is not None
        assert decode(part.encoded).to_pydict() == {"n": [1, 4, 0, 2]}
        assert [(b.bin, b.first_row, b.rows) for b in part.manifest.bins] == [(0, 0, 2), (2, 2, 2)]
        assert (nothing.encoded, nothing.manifest.rows, nothing.manifest.bins) == (None, 0, ())


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"channel": "nobody.knows.it"}, grpc.StatusCode.NOT_FOUND, "UNKNOWN_CHANNEL"),
        ({"channel": "../../etc"}, grpc.StatusCode.NOT_FOUND, "UNKNOWN_CHANNEL"),
        ({"from_epoch": 0}, grpc.StatusCode.OUT_OF_RANGE, "TRIMMED_EPOCH"),
        ({"from_epoch": 9}, grpc.StatusCode.FAILED_PRECONDITION, "CHANNEL_ERROR"),
        ({"from_epoch": 1, "credit_bytes": 0}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CHANNEL_REQUEST"),
        ({"from_epoch": 1, "consumer": ""}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CHANNEL_REQUEST"),
        ({"from_epoch": 1, "columns": ["x"]}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CHANNEL_REQUEST"),
        ({"from_epoch": 1, "bins": [1]}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_CHANNEL_REQUEST"),
    ],
)
async def test_errors_have_a_status_and_a_detail(
    tmp_path: Path, fields: dict[str, object], status: grpc.StatusCode, code: str
) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        log.publish(0, numbers(0, 1), watermark_us=None)
        log.publish(1, numbers(1, 1), watermark_us=None)
        log.acknowledge("jfk", 0)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await pulled(ewr, **fields)
        detail = received_detail(caught.value)
        assert caught.value.code() is status
        assert detail is not None
        assert detail.code == code
        assert detail.message == caught.value.details()
        if code == "TRIMMED_EPOCH":
            assert detail.ids["first_epoch"] == "1"


async def test_a_damaged_epoch_is_reported_as_lost_data(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        log.publish(0, numbers(0, 100), watermark_us=None)
        (file,) = log.directory.glob("*.epoch")
        data = bytearray(file.read_bytes())
        data[-5] ^= 1
        file.write_bytes(data)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await pulled(ewr)
        assert caught.value.code() is grpc.StatusCode.DATA_LOSS


async def test_the_first_message_must_open_and_no_other_may(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        ewr.store.open(CHANNEL)
        first_credit = PullCall(ewr)
        await first_credit.grant(5)
        twice = await PullCall(ewr).open(follow=True)
        await twice.open(follow=True)
        for call in (first_credit, twice):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            await call.close()


async def test_analysis_is_delegated(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,), connect(ewr.address) as connection:
        stub = ExchangeServiceStub(connection)
        assert len((await stub.Analyze(pb.AnalyzeRequest(statements=["SELECT 1"]))).analyses) == 1
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Analyze(pb.AnalyzeRequest())
        detail = received_detail(caught.value)
        assert detail is not None
        assert (detail.code, detail.hint, dict(detail.ids)) == ("ENGINE_ERROR", "send one", {"site": "ewr"})


async def test_the_sender_stays_within_the_credit(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        sizes = [log.publish(epoch, noise(epoch, 40_000), watermark_us=None).size_bytes for epoch in range(4)]
        call = await PullCall(ewr).open(credit_bytes=sizes[0] + sizes[1] + 10, follow=True)
        first = [await call.read() for _ in range(3)]
        assert [r.WhichOneof("message") for r in first if r] == ["schema", "part", "part"]
        assert await call.silent()
        await call.grant(sizes[2] - 11)
        await asyncio.sleep(0.1)
        assert not call._pending.done()
        await call.grant(1)
        assert (await call.read_pending()).part.epoch == 2
        assert await call.silent()
        await call.close()


async def test_an_epoch_larger_than_the_credit_waits_for_all_of_it(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        small = log.publish(0, noise(0, 80), watermark_us=None)
        large = log.publish(1, noise(1, 2_500_000), watermark_us=None)
        call = await PullCall(ewr).open(credit_bytes=100_000, follow=True)
        await call.read()
        assert (await call.read()).part.epoch == 0  # type: ignore[union-attr]
        assert await call.silent()
        await call.grant(small.size_bytes)
        pieces = [(await call.read_pending()).part] + [(await call.read()).part for _ in range(2)]  # type: ignore[union-attr]
        assert [len(piece.payload) for piece in pieces] == [1 << 20, 1 << 20, large.size_bytes - (2 << 20)]
        assert [piece.HasField("manifest") for piece in pieces] == [False, False, True]
        await call.close()


async def test_credit_that_can_never_come_ends_the_call(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        for epoch in range(2):
            log.publish(epoch, noise(epoch, 4_000), watermark_us=None)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await pulled(ewr, credit_bytes=5_000)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_acknowledgements_of_a_site_trim_and_those_of_a_client_do_not(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        for epoch in range(3):
            log.publish(epoch, numbers(epoch, 1), watermark_us=None)
        client = await PullCall(ewr).open(follow=True)
        site = await PullCall(ewr).open(follow=True, consumer="jfk")
        await client.acknowledge(2)
        await site.acknowledge(0)
        await eventually(lambda: log.first_epoch == 1)
        await asyncio.sleep(0.05)
        assert (log.first_epoch, log.readers.consumers) == (1, ("jfk",))
        await client.close()
        await site.close()


async def test_a_small_epoch_costs_little_more_than_its_rows(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        for epoch in range(10):
            table = pa.table(
                {
                    "window_start": pa.array(
                        [1_357_000_000_000_000 + epoch * 10_000_000] * 20, pa.timestamp("us", "UTC")
                    ),
                    "carrier": [f"carrier-{i}" for i in range(20)],
                    "dest": [f"dest-{i % 7}" for i in range(20)],
                    "n": pa.array([i * 37 % 101 for i in range(20)], pa.int64()),
                    "delay_sum": [float(i * 7919 % 1009) for i in range(20)],
                    "delay_n": pa.array([i * 31 % 97 for i in range(20)], pa.int64()),
                }
            )
            log.publish(epoch, table, watermark_us=1_357_000_000_000_000 + epoch)
        responses = await pulled(ewr)
        assert [r.WhichOneof("message") for r in responses] == ["schema"] + ["part"] * 10
        over = [r.ByteSize() - len(r.part.payload) for r in responses[1:]]
        assert max(over) <= 48
        assert max(r.ByteSize() for r in responses[1:]) < 700


async def test_each_part_says_how_long_the_sender_had_nothing_to_send(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        log.publish(0, noise(0, 3 * 1024 * 1024 // 2), watermark_us=0)
        log.publish(1, None, watermark_us=1)
        first, second = [await pulled(ewr) for _ in range(2)]
        parts = [response.part for response in first if response.HasField("part")]
        assert [part.epoch for part in parts] == [0, 0, 1]
        assert all(part.HasField("idle_us") for part in parts)
        assert [response.ByteSize() for response in first] == [response.ByteSize() for response in second]


@pytest.mark.parametrize("answer", [True, False, None])
async def test_a_reader_is_asked_before_a_large_epoch_is_sent(tmp_path: Path, answer: bool | None) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        log.publish(0, noise(1, 200_000), watermark_us=7)
        log.publish(1, numbers(0, 3), watermark_us=8)
        log.finish()
        call = await PullCall(ewr).open(takes_offers=True, consumer="jfk")
        offer = await call.read()
        assert offer is not None
        _, encoded = log.epochs.read_encoded(0)
        assert encoded is not None
        assert offer.offer == pb.EpochOffer(epoch=0, sha256=digest_of(encoded))
        assert await call.silent()
        if answer is not None:
            await call.call.write(pb.PullRequest(answer=pb.OfferAnswer(epoch=0, has=answer)))
        await call.call.done_writing()
        responses = [await call.read_pending(), *await call.rest()]
        await call.close()
        kinds = [r.WhichOneof("message") for r in responses]
        if answer:
            assert kinds == ["part", "schema", "part", "end"]
            known = responses[0].part
            assert (known.payload, known.sha256, known.manifest.watermark_us) == (b"", digest_of(encoded), 7)
            return
        assert kinds == ["schema", "part", "schema", "part", "end"]
        assert epochs_in(responses)[0].encoded == encoded
