"""Channels that publish, fall silent and wake, while readers, routers and producers die, in any order.

Sender, assembler, logs and ports are the real ones. There is no network between them: the test itself decides when a
link is read. Once everything is quiet, each reader's watermark must equal the definition's over everything published;
at no time may it exceed the definition's over everything taken, and it never goes back.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from contract.tasks import ReadFrom
from selat.v1 import exchange_pb2 as pb
from site_agent.base.errors import TrimmedEpochError
from site_agent.base.offload import Offload
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import Standing
from site_agent.channels.store import ChannelStore
from site_agent.exchange.assembler import EpochAssembler, ReceivedEpoch
from site_agent.exchange.outbound import Outbound
from site_agent.exchange.sender import Sender
from site_agent.exchange.turns import Turns
from site_agent.exchange.wire import serialize
from site_agent.port import Port, PortInput
from site_agent.port.watermark import InputWatermark, port_watermark
from site_agent.router import Router
from site_agent.tasks.source import end_idleness

T = TypeVar("T")

CHANNELS = ("a", "b")
READERS = ("first", "late")
DELAY_US = 7
channels = st.sampled_from(CHANNELS)


def no_network(address: str, site: str) -> grpc.aio.Channel:
    raise AssertionError(f"nothing connects to {site} at {address} here")


class NothingNewError(Exception):
    """The port would wait."""


class ImpatientPort(Port):
    async def _wait(self) -> None:
        raise NothingNewError


@dataclass
class Reader:
    """A task that reads both channels, and the content of its checkpoint."""

    name: str
    port: Port
    read_from: ReadFrom
    cursors: dict[str, int] = field(default_factory=dict)
    watermark_us: int | None = None
    highest_us: int | None = None
    """The highest watermark since its last start."""


class Idleness(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp())
        self.offload = Offload("test")
        self.said: dict[str, list[tuple[int | None, bool]]] = {name: [] for name in CHANNELS}
        """Watermark and idleness of every epoch, by channel."""
        self.readers: dict[str, Reader] = {}
        self.producers = ChannelStore(self.root / "there")
        for name in CHANNELS:
            self.producers.open(name).set_consumers(["here"])
        self.open_site()
        self.join("first", ReadFrom.OWN)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def open_site(self) -> None:
        self.store = ChannelStore(self.root / "here")
        # For the router the copies are channels of its own site: nothing pulls them but this test.
        self.router = Router("here", self.store, no_network)
        for name in CHANNELS:
            self.store.open(name).set_consumers(["here"])

    def join(self, name: str, read_from: ReadFrom) -> None:
        before = self.readers.get(name)
        port = ImpatientPort(self.router, reader=name, query_id="q")
        reader = Reader(name, port, read_from)
        if before is not None:
            reader = Reader(name, port, read_from, before.cursors, before.watermark_us, before.watermark_us)
            port.restore(reader.cursors, watermark_us=reader.watermark_us)
        inputs = [PortInput(c, "here", read_from=read_from, event_delay_us=DELAY_US) for c in CHANNELS]
        self.run(port.set_inputs(inputs))
        self.readers[name] = reader

    @rule(channel=channels, steps=st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=3))
    def produce(self, channel: str, steps: list[int | None]) -> None:
        """Publish an epoch for each step, with rows and a watermark that moves by the step; None: an idle one."""
        for step in steps:
            self.publish(channel, step or 0, idle=step is None)

    def publish(self, channel: str, step: int, *, idle: bool) -> None:
        log = self.producers.open(channel)
        before_us = self.said[channel][-1][0] if self.said[channel] else None
        watermark_us = before_us if idle else (before_us or 0) + step
        log.publish(log.next_epoch, None if idle else pa.table({"n": [1]}), watermark_us=watermark_us, idle=idle)
        self.said[channel].append((watermark_us, idle))

    @rule(channel=channels)
    def transfer(self, channel: str) -> None:
        """Connect, receive all epochs, acknowledge those that are not needed any more, and lose the connection."""
        copy = self.store.open(channel)
        try:
            self.run(self.pull(copy))
        except TrimmedEpochError as error:
            copy.begin_at(int(error.ids["first_epoch"]))
            self.run(self.pull(copy))
        if copy.first_epoch:
            self.producers.open(channel).acknowledge("here", copy.first_epoch - 1)

    async def pull(self, copy: ChannelLog) -> None:
        request = pb.OpenChannel(
            channel=copy.id,
            consumer="here",
            from_epoch=copy.next_epoch,
            credit_bytes=1 << 30,
            wants_standing=copy.standing is None,
        )
        sender = Sender(self.producers.open(copy.id), request, self.offload, Turns(), Outbound())
        assembler = EpochAssembler(copy.id, copy.next_epoch)
        async for response in sender.responses(_nothing()):
            received = assembler.feed(serialize(response))
            if isinstance(received, Standing):
                copy.learn(received)
            elif isinstance(received, ReceivedEpoch):
                copy.append(received.manifest, received.encoded)

    @rule(name=st.sampled_from(READERS), most=st.integers(1, 3))
    def take(self, name: str, most: int) -> None:
        if name in self.readers:
            self.drain(self.readers[name], max_bytes=1, most=most)

    def drain(self, reader: Reader, *, max_bytes: int = 1 << 20, most: int = 100) -> None:
        for _ in range(most):
            try:
                self.run(reader.port.next(max_bytes=max_bytes))
            except NothingNewError:
                return
            self.check(reader)

    def check(self, reader: Reader) -> None:
        now_us, cursors = reader.port.watermark_us, reader.port.cursors
        assert _at(now_us) >= _at(reader.highest_us), "it went back"
        allowed_us = port_watermark(reader.highest_us, [self.says(c, cursors.get(c, 0)) for c in CHANNELS])
        assert _at(now_us) <= _at(allowed_us), "it is beyond what was taken"
        reader.highest_us = now_us

    def says(self, channel: str, cursor: int) -> InputWatermark:
        """The definition of a channel's watermark and idleness for a reader at this cursor."""
        watermark_us, idle = self.said[channel][cursor - 1] if cursor else (None, False)
        return InputWatermark(watermark_us, idle and cursor >= self.store.open(channel).next_epoch)

    @rule(name=st.sampled_from(READERS))
    def checkpoint(self, name: str) -> None:
        if name in self.readers:
            reader = self.readers[name]
            reader.cursors, reader.watermark_us = dict(reader.port.cursors), reader.port.watermark_us
            known = {c: min(cursor, self.store.open(c).next_epoch) for c, cursor in reader.cursors.items()}
            reader.port.acknowledge(known)

    @rule()
    def come_late(self) -> None:
        if "late" not in self.readers:
            self.join("late", ReadFrom.OLDEST)

    @rule(name=st.sampled_from(READERS))
    def kill_reader(self, name: str) -> None:
        if name in self.readers:
            self.run(self.readers[name].port.close())
            self.join(name, self.readers[name].read_from)

    @rule()
    def kill_site(self) -> None:
        self.run(self.router.close())
        self.open_site()
        for name, reader in list(self.readers.items()):
            self.join(name, reader.read_from)

    @rule(channel=channels)
    def lose_copy(self, channel: str) -> None:
        """Lose a copy. Its producer still has all epochs that no checkpoint has passed."""
        self.run(self.router.close())
        shutil.rmtree(self.root / "here" / channel)
        self.open_site()
        for name, reader in list(self.readers.items()):
            self.join(name, reader.read_from)

    @rule()
    def kill_producers(self) -> None:
        self.producers = ChannelStore(self.root / "there")
        for channel in CHANNELS:
            log = self.producers.open(channel)
            end_idleness(log)
            if self.said[channel] and self.said[channel][-1][1]:
                self.said[channel].append((self.said[channel][-1][0], False))

    @rule()
    def be_quiet(self) -> None:
        """Let everything that was published arrive and be taken by each reader."""
        for channel in CHANNELS:
            self.transfer(channel)
        self.take_all()

    def take_all(self) -> None:
        """Let each reader take everything, and compare its watermark with the definition's."""
        for reader in self.readers.values():
            before_us = reader.highest_us
            self.drain(reader)
            final = [self.says(channel, len(self.said[channel])) for channel in CHANNELS]
            assert reader.port.watermark_us == port_watermark(before_us, final), reader.name
            assert all(reader.port.cursors.get(c, 0) == len(self.said[c]) for c in CHANNELS)

    @rule(lose=st.sampled_from((None, *CHANNELS)), dies=st.booleans())
    def let_go_of_everything(self, lose: str | None, dies: bool) -> None:
        """Let checkpoints pass all epochs, so that nothing is kept of a channel but its standing."""
        self.be_quiet()
        for name in self.readers:
            self.checkpoint(name)
        for channel in CHANNELS:
            self.transfer(channel)
        if lose:
            self.lose_copy(lose)
            self.transfer(lose)
        if dies:
            self.kill_site()
        for channel in CHANNELS:
            if channel != lose:
                self.publish(channel, 100, idle=False)
                self.transfer(channel)
        self.take_all()

    def teardown(self) -> None:
        self.be_quiet()
        self.run(self.router.close())
        self.offload.close()
        self.loop.close()
        shutil.rmtree(self.root)


async def _nothing() -> AsyncIterator[pb.PullRequest]:
    no_requests: tuple[pb.PullRequest, ...] = ()
    for request in no_requests:
        yield request


def _at(watermark_us: int | None) -> int:
    return -1 if watermark_us is None else watermark_us


TestIdleness = Idleness.TestCase
TestIdleness.settings = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
