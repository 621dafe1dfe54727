"""Routers that pull over real gRPC."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import grpc.aio
import pytest

from selat.v1 import exchange_pb2 as pb
from site_agent.base.errors import ChannelError, CorruptEpochError
from site_agent.base.files import Files
from site_agent.channels.log import ChannelLog
from site_agent.channels.pace import ChannelReader, QueryReaders
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import CLIENT_OPTIONS, KEEPALIVE_MS, SERVER_OPTIONS, connect, keepalive
from site_agent.port import Port, PortInput
from site_agent.router import PullSettings, Router
from site_agent.router.meter import SETTLE_S
from site_agent.router.pacing import LinkPace
from tests.integration.exchange_sites import CHANNEL, eventually, noise, numbers, pulled, rows_of, sites
from tests.unit.site_agent.router.hand import HandClock, HandPace

pytestmark = pytest.mark.timeout(120)


async def test_two_readers_one_transfer(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        for epoch in range(5):
            log.publish(epoch, numbers(epoch * 10, 10), watermark_us=epoch, commit={"secret": epoch})
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "q1.merge", query_id="q1")
        await copy.state.wait(4)
        again = await jfk.router.subscribe(CHANNEL, "ewr", "q2.merge", query_id="q2")
        assert again is copy
        assert rows_of(copy, range(5)) == list(range(50))
        manifest = copy.epochs.manifest(4)
        assert (manifest.watermark_us, manifest.rows, manifest.commit) == (4, 10, {})
        assert manifest.crc32 == log.epochs.manifest(4).crc32
        (usage,) = jfk.router.usage()
        expected = sum(r.ByteSize() for r in await pulled(ewr))
        assert (usage.bytes, usage.epochs, usage.readers, usage.query_id) == (expected, 5, 2, "q1")
        link = jfk.router.link_bytes()["ewr"]
        assert (link.bytes, link.epochs) == (expected, 5)
        assert ewr.pulls == 2

        jfk.router.acknowledge(CHANNEL, "q1.merge", 4)
        jfk.router.acknowledge(CHANNEL, "q2.merge", 1)
        await eventually(lambda: log.first_epoch == 2)
        assert copy.first_epoch == 2
        await jfk.router.unsubscribe(CHANNEL, "q2.merge")
        await eventually(lambda: log.first_epoch == 5)
        await jfk.router.unsubscribe(CHANNEL, "q1.merge")
        assert jfk.store.ids() == ()
        assert jfk.router.usage() == ()
        assert jfk.router.link_bytes()["ewr"].epochs == 5


async def test_readers_of_one_copy_are_told_apart_for_the_producer(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["ewr", "jfk"])
        fast, slow, here = (ChannelReader(*pair) for pair in (("jfk", "a.m"), ("jfk", "b.m"), ("ewr", "c.m")))
        log.readers.set_queries([QueryReaders("a", (fast,)), QueryReaders("b", (slow,)), QueryReaders("c", (here,))])
        for epoch in range(5):
            log.publish(epoch, numbers(epoch, 1), watermark_us=None)
        for reader in ("a.m", "b.m"):
            copy = await jfk.router.subscribe(CHANNEL, "ewr", reader)
        for reader in ("c.m", "other"):
            await ewr.router.subscribe(CHANNEL, "ewr", reader)
        await copy.state.wait(4)
        size_bytes = log.epochs.retained_bytes

        def waits() -> list[int]:
            return [waiting.size_bytes for waiting in log.readers.waiting()]

        assert waits() == [size_bytes] * 3
        jfk.router.acknowledge(CHANNEL, "a.m", 4)
        ewr.router.acknowledge(CHANNEL, "c.m", 4)
        await eventually(lambda: waits() == [0, size_bytes, 0])
        # After a break the producer is told again; nothing was let go of meanwhile.
        await ewr.restart()
        log = ewr.store.open(CHANNEL)
        log.readers.set_queries([QueryReaders("a", (fast,)), QueryReaders("b", (slow,))])
        jfk.router.set_addresses({"ewr": ewr.address})
        await eventually(lambda: waits() == [0, size_bytes])
        jfk.router.acknowledge(CHANNEL, "b.m", 3)
        await eventually(lambda: log.readers.acknowledged("jfk") == 3)
        assert waits() == [0, log.epochs.stored_bytes(4)]
        assert rows_of(copy, range(4, 5)) == [4]


async def test_a_reader_that_comes_late_begins_at_the_first_epoch_still_kept(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        for epoch in range(4):
            log.publish(epoch, numbers(epoch, 1), watermark_us=None)
        log.acknowledge("jfk", 2)
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "late")
        await copy.state.wait(3)
        assert (copy.first_epoch, copy.next_epoch) == (3, 4)
        assert rows_of(copy, range(3, 4)) == [3]


async def test_a_reader_that_keeps_lets_the_producer_trim(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "results", keeps=True)
        for epoch in range(4):
            log.publish(epoch, numbers(epoch, 1), watermark_us=None)
        log.finish()
        await eventually(lambda: log.first_epoch == 4)
        await eventually(lambda: copy.end is not None)
        assert rows_of(copy, range(4)) == [0, 1, 2, 3]


async def test_local_readers_count_as_their_site(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["ewr", "jfk"])
        for epoch in range(3):
            log.publish(epoch, numbers(epoch, 1), watermark_us=None)
        assert await ewr.router.subscribe(CHANNEL, "ewr", "a") is log
        await ewr.router.subscribe(CHANNEL, "ewr", "b")
        ewr.router.acknowledge(CHANNEL, "a", 2)
        assert log.readers.acknowledged("ewr") is None
        ewr.router.acknowledge(CHANNEL, "b", 1)
        assert (log.readers.acknowledged("ewr"), log.first_epoch) == (1, 0)
        with pytest.raises(ChannelError, match="not published yet"):
            ewr.router.acknowledge(CHANNEL, "b", 3)
        await ewr.router.unsubscribe(CHANNEL, "a")
        await ewr.router.unsubscribe(CHANNEL, "b")
        assert ewr.store.ids() == (CHANNEL,)
        assert ewr.router.subscriptions("a") == {}


async def test_readers_of_before_a_restart_still_hold_their_epochs(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr") as (ewr,):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["ewr"])
        for epoch in range(3):
            log.publish(epoch, numbers(epoch, 1), watermark_us=None)
        await ewr.router.subscribe(CHANNEL, "ewr", "a")
        await ewr.router.subscribe(CHANNEL, "ewr", "b")
        await ewr.restart()
        log = await ewr.router.subscribe(CHANNEL, "ewr", "a")
        ewr.router.acknowledge(CHANNEL, "a", 2)
        assert log.first_epoch == 0
        await ewr.router.keep_only({"a"})
        assert log.first_epoch == 3


async def test_nothing_is_lost_or_doubled_when_the_producer_restarts_in_mid_stream(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk", window_bytes=20_000) as (ewr, jfk):
        ewr.store.open(CHANNEL).set_consumers(["jfk"])
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "r")
        expected = []
        for epoch in range(30):
            table = noise(epoch, 4_000)
            expected += table.column("n").to_pylist()
            ewr.store.open(CHANNEL).publish(epoch, table, watermark_us=epoch)
            if epoch % 10 == 5:
                await eventually(lambda: copy.next_epoch > 0)
                await ewr.restart()
                ewr.router.set_addresses({"jfk": jfk.address})
        ewr.store.open(CHANNEL).finish()
        await eventually(lambda: copy.end is not None, within_s=60)
        assert copy.next_epoch == 30
        assert rows_of(copy, range(30)) == expected


async def test_the_reading_site_goes_on_where_it_was_after_a_restart(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        for epoch in range(4):
            log.publish(epoch, numbers(epoch, 1), watermark_us=None)
        await (await jfk.router.subscribe(CHANNEL, "ewr", "r")).state.wait(3)
        await jfk.restart()
        assert jfk.router.subscriptions("r") == {CHANNEL: "ewr"}
        jfk.router.set_addresses({"ewr": ewr.address})
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "r")
        assert copy.next_epoch == 4
        log.publish(4, numbers(4, 1), watermark_us=None)
        await copy.state.wait(4)
        assert rows_of(copy, range(5)) == [0, 1, 2, 3, 4]
        assert jfk.router.usage()[0].epochs == 1


async def test_a_site_that_moves_is_followed(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        log.publish(0, numbers(0, 1), watermark_us=None)
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "r")
        await copy.state.wait(0)
        old = ewr.server
        ewr.port, ewr.server = 0, None
        await ewr.serve()
        jfk.router.set_addresses({"ewr": ewr.address})
        await old.stop(None)  # type: ignore[union-attr]
        log.publish(1, numbers(1, 1), watermark_us=None)
        async with asyncio.timeout(30):
            await copy.state.wait(1)
        assert rows_of(copy, range(2)) == [0, 1]


async def test_a_link_that_our_transfers_fill_is_measured(tmp_path: Path) -> None:
    """The link's time passes by hand: what it carries does not depend on this machine."""
    clock = HandClock()
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        jfk.router.slow_down({"ewr": HandPace(50_000.0, 0.0, clock)})
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        for epoch in range(12):
            log.publish(epoch, noise(epoch, 100_000), watermark_us=epoch)
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "r")
        await copy.state.wait(11)
        clock.now_s += SETTLE_S
        (transfer,) = jfk.router.take_transfers()
        assert transfer.from_site == "ewr"
        assert transfer.size_bytes / transfer.duration_s == pytest.approx(50_000.0, rel=0.02)
        assert transfer.link_bound
        assert jfk.router.take_transfers() == ()


async def test_the_sending_site_knows_what_is_stored_and_how_fast_it_went(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        jfk.router.slow_down({"ewr": LinkPace(400_000.0, 0.01)})
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        assert ewr.outbound.stored_before("jfk", CHANNEL) is None
        for epoch in range(4):
            log.publish(epoch, noise(epoch, 50_000), watermark_us=epoch)
        log.publish(4, None, watermark_us=4)
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "r")
        await copy.state.wait(4)
        await eventually(lambda: ewr.outbound.stored_before("jfk", CHANNEL) == 5)
        rate = ewr.outbound.rate("jfk")
        assert rate is not None
        # Waiting for this machine's disk is a part of it.
        assert 100_000 < rate.bytes_per_s < 500_000
        await jfk.router.close()
        await eventually(lambda: ewr.outbound.stored_before("jfk", CHANNEL) is None)


async def test_the_sending_site_hears_how_long_the_rows_go_on(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        jfk.router.set_onward(CHANNEL, 1)
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "r")
        jfk.router.set_onward(CHANNEL, 2_500_000)
        assert ewr.outbound.onward_s("jfk", CHANNEL) == 0
        log.publish(0, numbers(0, 10), watermark_us=0)
        await copy.state.wait(0)
        await eventually(lambda: ewr.outbound.onward_s("jfk", CHANNEL) == 2.5)
        ewr.outbound.forget(CHANNEL)
        assert ewr.outbound.onward_s("jfk", CHANNEL) == 0


async def test_a_link_that_brings_nothing_is_not_measured(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        log.publish(0, numbers(0, 10), watermark_us=0)
        await (await jfk.router.subscribe(CHANNEL, "ewr", "r")).state.wait(0)
        assert jfk.router.take_transfers() == ()


class Wire:
    """A TCP connection in the middle that can fall silent without being closed, as a severed link does."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._connections: list[asyncio.Event] = []

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def sever(self) -> None:
        """Swallow everything on the connections that are there now."""
        for silent in self._connections:
            silent.set()

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent = asyncio.Event()
        self._connections.append(silent)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        await asyncio.gather(_pump(reader, far_writer, silent), _pump(far_reader, writer, silent))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silent: asyncio.Event) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            if not silent.is_set():
                writer.write(data)
                await writer.drain()
    writer.close()


async def test_a_link_that_falls_silent_is_given_up_and_tried_again(tmp_path: Path) -> None:
    """Nothing is closed and nothing refused: only the pings can tell."""
    assert set(keepalive(KEEPALIVE_MS)) <= set(CLIENT_OPTIONS) & set(SERVER_OPTIONS)

    def impatient(address: str, site: str) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(address, options=tuple((dict(CLIENT_OPTIONS) | dict(keepalive(500))).items()))

    async with sites(tmp_path, "ewr") as (ewr,):
        wire = Wire(ewr.port)
        router = Router("jfk", ChannelStore(tmp_path / "jfk"), impatient, PullSettings(random=lambda: 1.0))
        router.set_addresses({"ewr": await wire.start()})
        log = ewr.store.open(CHANNEL)
        log.publish(0, numbers(0, 1), watermark_us=None)
        copy = await router.subscribe(CHANNEL, "ewr", "r")
        await copy.state.wait(0)
        wire.sever()
        log.publish(1, numbers(1, 1), watermark_us=None)
        async with asyncio.timeout(30):
            await copy.state.wait(1)
        assert rows_of(copy, range(2)) == [0, 1]
        await router.close()
        await wire.stop()


async def test_a_channel_may_be_subscribed_before_it_exists_and_before_its_site_is_known(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        jfk.router.set_addresses({})
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "r")
        await asyncio.sleep(0.05)
        jfk.router.set_addresses({"ewr": ewr.address})
        await eventually(lambda: ewr.pulls >= 2)
        ewr.store.open(CHANNEL).publish(0, numbers(7, 1), watermark_us=None)
        async with asyncio.timeout(30):
            await copy.state.wait(0)
        assert rows_of(copy, range(1)) == [7]


async def test_a_corrupt_payload_is_fetched_again(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        for epoch in range(3):
            log.publish(epoch, numbers(epoch, 100), watermark_us=None)
        spoiled: list[pb.PullResponse] = []

        def spoil_once(response: pb.PullResponse) -> pb.PullResponse:
            if response.part.epoch == 1 and not spoiled:
                spoiled.append(response)
                damaged = bytearray(response.part.payload)
                damaged[len(damaged) // 2] ^= 0x10
                response.part.payload = bytes(damaged)
            return response

        ewr.mangle = spoil_once
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "r")
        async with asyncio.timeout(30):
            await copy.state.wait(2)
        assert rows_of(copy, range(3)) == [*range(100), *range(1, 101), *range(2, 102)]
        assert (len(spoiled), ewr.pulls) == (1, 2)


async def test_a_slow_router_slows_the_sender_and_both_hold_little(tmp_path: Path) -> None:
    window_bytes = 300_000
    async with sites(tmp_path, "ewr", "jfk", window_bytes=window_bytes) as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        sizes = [log.publish(epoch, noise(epoch, 100_000), watermark_us=None).size_bytes for epoch in range(12)]
        sent, gate, entered = [0], threading.Event(), threading.Event()

        def count(response: pb.PullResponse) -> pb.PullResponse:
            sent[0] += len(response.part.payload)
            return response

        ewr.mangle = count
        copy = jfk.store.open(CHANNEL)
        append_all = copy.append_all

        def slow_append_all(*args: object) -> None:
            entered.set()
            gate.wait(10)
            append_all(*args)  # type: ignore[arg-type]

        copy.append_all = slow_append_all  # type: ignore[method-assign,assignment]
        await jfk.router.subscribe(CHANNEL, "ewr", "r")
        await eventually(entered.is_set)
        await asyncio.sleep(0.3)
        assert sizes[0] <= sent[0] <= window_bytes
        gate.set()
        await copy.state.wait(11)
        assert sent[0] == sum(sizes)


def damage(log: ChannelLog, epoch: int) -> None:
    path = log.directory / f"{epoch:012d}.epoch"
    path.write_bytes(path.read_bytes()[:-1] + b"?")


async def test_a_damaged_epoch_of_a_copy_is_fetched_again(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        for epoch in range(3):
            log.publish(epoch, numbers(epoch * 10, 10), watermark_us=epoch)
        port = Port(jfk.router, reader="q1.merge", query_id="q1")
        await port.set_inputs([PortInput(CHANNEL, "ewr")])
        copy = jfk.store.open(CHANNEL)
        await copy.state.wait(2)
        retained_bytes = copy.epochs.retained_bytes
        damage(copy, 1)
        damage(copy, 2)

        batch = await port.next(max_bytes=1 << 20)

        assert [n for table in batch.tables for n in table.column("n").to_pylist()] == list(range(30))
        assert (copy.epochs.damage, copy.epochs.retained_bytes) == (None, retained_bytes)


async def test_it_waits_for_a_producer_that_is_away(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        ewr.store.open(CHANNEL).publish(0, numbers(0, 10), watermark_us=0)
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "q1.merge")
        await copy.state.wait(0)
        damage(copy, 0)
        await ewr.stop_serving()
        with pytest.raises(CorruptEpochError) as caught:
            copy.epochs.read(0)
        waiting = asyncio.create_task(jfk.router.put_right(caught.value))
        await asyncio.sleep(0.3)
        assert not waiting.done()

        await ewr.serve()
        await asyncio.wait_for(waiting, 20)

        assert rows_of(copy, range(1)) == list(range(10))


async def test_what_the_producer_no_longer_keeps_is_lost_and_named(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "results", keeps=True)
        for epoch in range(2):
            log.publish(epoch, numbers(epoch, 1), watermark_us=None)
        await eventually(lambda: log.first_epoch == 2)
        damage(copy, 0)
        with pytest.raises(CorruptEpochError) as caught:
            copy.epochs.read(0)

        with pytest.raises(CorruptEpochError, match=r"000000000000\.epoch .* is damaged, and ewr cannot send it again"):
            await jfk.router.put_right(caught.value)
        with pytest.raises(CorruptEpochError):
            await ewr.router.put_right(caught.value)


async def test_a_copy_whose_newest_epoch_is_damaged_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        log = ewr.store.open(CHANNEL)
        log.set_consumers(["jfk"])
        for epoch in range(2):
            log.publish(epoch, numbers(epoch, 1), watermark_us=None)
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "q1.merge")
        await copy.state.wait(1)
        jfk.router.acknowledge(CHANNEL, "q1.merge", 1)
        await eventually(lambda: log.first_epoch == 2)
        path = copy.directory / "000000000001.epoch"
        path.write_bytes(b"nothing that was an epoch")

        await jfk.restart()
        jfk.router.set_addresses({"ewr": ewr.address})
        copy = await jfk.router.subscribe(CHANNEL, "ewr", "q1.merge")
        log.publish(2, numbers(2, 1), watermark_us=None)
        await copy.state.wait(2)

        assert rows_of(copy, range(2, 3)) == [2]


class _Held(Files):
    """Writes wait until they are let go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def write(self, path: Path, parts: Sequence[bytes], *, sync: bool) -> None:
        self.reached.set()
        self.let_go.wait(30)
        super().write(path, parts, sync=sync)


async def test_a_channel_counts_as_subscribed_while_its_reader_is_being_stored(tmp_path: Path) -> None:
    files = _Held()
    store = ChannelStore(tmp_path, files)
    router = Router("jfk", store, connect)
    subscribing = asyncio.create_task(router.subscribe(CHANNEL, "jfk", "r"))
    await asyncio.to_thread(files.reached.wait, 30)
    # What removes channels that nobody reads looks at the store and at these; a removal now would lose the reader.
    assert set(store.ids()) == router.subscribed == {CHANNEL}
    files.let_go.set()
    await subscribing
    assert router.subscribed == {CHANNEL}
    await router.close()


OTHER = "q-0002-d4e5f6.s0.ewr"
LARGE = noise(1, 1_000_000)


async def test_rows_that_came_for_another_query_are_not_sent_again(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk", window_bytes=1_500_000) as (ewr, jfk):
        for name in (CHANNEL, OTHER):
            log = ewr.store.open(name)
            for epoch, rows in enumerate(
                (numbers(0, 5), LARGE, None, noise(len(name), 1000), LARGE, noise(2, 900_000))
            ):
                log.publish(epoch, rows, watermark_us=epoch)
            log.finish()
        jfk.router.set_reused({CHANNEL, OTHER})
        copies = []
        for name in (CHANNEL, OTHER):
            copy = await jfk.router.subscribe(name, "ewr", "reader")
            await eventually(lambda copy=copy: copy.end is not None)  # type: ignore[misc]
            copies.append((copy, jfk.router.link_bytes()["ewr"].bytes))
        for copy, _ in copies:
            assert [copy.epochs.manifest(epoch).watermark_us for epoch in range(6)] == list(range(6))
            sent = ewr.store.open(copy.id)
            assert [copy.epochs.read(epoch) for epoch in range(6)] == [sent.epochs.read(epoch) for epoch in range(6)]
        (_, first_bytes), (_, both_bytes) = copies
        # The second of two in one channel may be asked about before the first is stored.
        assert 2_900_000 < first_bytes < 3_000_000
        assert both_bytes - first_bytes < 10_000


async def test_rows_that_are_gone_meanwhile_are_sent_after_all(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        jfk.router.set_reused({CHANNEL, OTHER})
        for name in (CHANNEL, OTHER):
            log = ewr.store.open(name)
            log.publish(0, LARGE, watermark_us=None)
            log.finish()
            copy = await jfk.router.subscribe(name, "ewr", "reader")
            await eventually(lambda copy=copy: copy.end is not None)  # type: ignore[misc]
            assert copy.epochs.read(0) == LARGE
            for file in (tmp_path / "jfk.reuse").iterdir():
                file.unlink()
        assert jfk.router.link_bytes()["ewr"].bytes > 2_000_000


async def test_a_site_that_was_not_told_to_takes_all_rows(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        for name in (CHANNEL, OTHER):
            log = ewr.store.open(name)
            log.publish(0, LARGE, watermark_us=None)
            log.finish()
            copy = await jfk.router.subscribe(name, "ewr", "reader")
            await eventually(lambda copy=copy: copy.end is not None)  # type: ignore[misc]
        assert jfk.router.link_bytes()["ewr"].bytes > 2_000_000
        assert not (tmp_path / "jfk.reuse").exists()
