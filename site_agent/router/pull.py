"""The transfer of one remote channel into this site's copy of it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext, suppress
from dataclasses import dataclass, field
from random import random
from time import monotonic

import grpc
import grpc.aio

from contract.trailers import received_detail
from machine.faults import reached
from selat.v1 import exchange_pb2 as pb
from site_agent.base.errors import CorruptEpochError, SiteAgentError
from site_agent.base.faults import FaultPoint
from site_agent.base.offload import Offload
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import Standing
from site_agent.channels.reuse import ReusableRows
from site_agent.exchange.assembler import EpochAssembler, KnownEpoch, Offer, ReceivedEpoch
from site_agent.exchange.wire import PullCall, pull_call
from site_agent.router.backlog import Backlog
from site_agent.router.backoff import Backoff
from site_agent.router.links import Links, LinkUsage
from site_agent.router.meter import MeteredTransfer, TransferMeter
from site_agent.router.pacing import LinkPace, Paced
from site_agent.router.refusals import Refusals
from site_agent.router.storing import Storing

_log = logging.getLogger(__name__)

_LONGEST_WAIT_FOR_UNKNOWN_S = 0.1
"""Short, because the sender itself waits for a channel that does not exist yet."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a channel's producer has to know about this site's readers."""

    first: int = 0
    """The first epoch that the producer must keep for them."""
    ahead: Mapping[str, int] = field(default_factory=dict)
    """Readers that are ahead of that, each with the first epoch that it needs."""
    bins: tuple[int, ...] = ()
    """The bins of whose rows the copy is; empty: all rows."""


ReadersNeed = Callable[[int], Needs]
"""Returns the needs, given the number of epochs stored here."""


@dataclass(frozen=True, slots=True)
class PullSettings:
    """How much a transfer has under way, and how long it waits before it tries again or gives a channel up."""

    window_bytes: int = 32 * 1024 * 1024
    """Several large epochs: while one is synced to disk, the next ones are under way."""
    random: Callable[[], float] = random
    """From 0 to 1; spreads the waits of several transfers."""
    now_s: Callable[[], float] = monotonic
    """The clock that measures links, and how long a channel has been refused."""


@dataclass(frozen=True, slots=True)
class PullEnvironment:
    """What all transfers of a site share."""

    site: str
    links: Links
    offload: Offload
    settings: PullSettings
    backlog: Backlog
    meter: TransferMeter
    reusable: ReusableRows | None = None
    """Rows that came here for other queries; None: none are kept."""
    paces: dict[str, LinkPace] = field(default_factory=dict)
    """Links that are slowed down, by the site where they begin."""

    def paced(self, call: PullCall, from_site: str) -> AbstractAsyncContextManager[AsyncIterable[bytes]]:
        """The messages of a call, slowed down where the link is emulated."""
        pace = self.paces.get(from_site)
        return nullcontext(call) if pace is None else Paced(call, pace)


class Pull:
    """Keeps a copy up to date, through every failure, until the channel has ended and all of it is acknowledged."""

    def __init__(  # noqa: PLR0913 - each is a part of its own
        self,
        log: ChannelLog,
        from_site: str,
        environment: PullEnvironment,
        *,
        link: LinkUsage,
        needs: ReadersNeed,
        told_end: bool,
        tell: Callable[[], Awaitable[None]],
        reuses: bool = False,
    ) -> None:
        """`told_end`: the producer knows already that the copy has all, and its end; `tell` is called when it does.

        `reuses`: what came for other queries is not sent again.
        """
        self.from_site = from_site
        self._told_end = told_end
        self._tell = tell
        self.usage = LinkUsage()
        self._log = log
        self._env = environment
        self._link = link
        self._backoff = Backoff(environment.settings.random)
        self._refusals = Refusals(log.id, from_site)
        self._needs = needs
        self._reusable = environment.reusable if reuses else None
        self._answers: deque[pb.OfferAnswer] = deque()
        self._granted_bytes = 0
        self.onward_us = 0
        """How long what is read here takes to go on, where it does: said with the next credit."""
        self._something_to_say = asyncio.Event()
        self._retry = asyncio.Event()
        self._attempt: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run(), name=f"pull {log.id}")

    def acknowledge(self) -> None:
        """The readers' needs have changed. May be called from any thread."""
        # A closed loop has no call left that could tell the producer.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._something_to_say.set)

    def reconnect(self) -> None:
        """Abandon the present connection, and any wait before the next attempt."""
        self._backoff.reset()
        self._retry.set()
        if self._attempt is not None:
            self._attempt.cancel()

    async def finished(self) -> None:
        """Return when nothing is left to transfer, or to say."""
        await asyncio.wait({self._task})

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def _complete(self) -> bool:
        return self._log.end is not None and self._needs(self._log.next_epoch).first >= self._log.next_epoch

    @property
    def _over(self) -> bool:
        """Return whether nothing is left to say either: a producer with a successor waits for its readers to end."""
        end = self._log.end
        return self._complete and (end is None or not end.successor_channel or self._told_end)

    async def _run(self) -> None:
        while not self._over:
            self._retry.clear()
            # A task of its own: closing a connection cancels its readers, which must not end the transfer.
            self._attempt = asyncio.create_task(self._pull_once())
            try:
                await asyncio.wait({self._attempt})
            finally:
                self._attempt.cancel()
                await asyncio.gather(self._attempt, return_exceptions=True)
            delay_s = self._delay_after(self._attempt)
            if delay_s is None:
                delay_s = await self._tell_over()
            if delay_s is None:
                return
            await self._pause(delay_s)

    def _delay_after(self, attempt: asyncio.Task[None]) -> float | None:
        """The delay before the next attempt; None when nothing is left to transfer."""
        if attempt.cancelled():
            self._refusals.clear()
            return 0.0 if self._retry.is_set() else self._backoff.next_delay_s()
        error = attempt.exception()
        if error is None:
            return None if self._complete else self._backoff.next_delay_s()
        unknown = isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.NOT_FOUND
        if unknown and self._log.end is not None:
            # Everything is here, and the producer has removed the channel: there is nobody to acknowledge to.
            return None
        self._log.state.set_lost(self._refusals.add(error, self._env.settings.now_s()))
        if unknown:
            # Common while a query is being deployed; a short delay, so that its first result is not late.
            return self._backoff.next_delay_s(longest_s=_LONGEST_WAIT_FOR_UNKNOWN_S)
        self._report(error)
        return self._backoff.next_delay_s()

    async def _tell_over(self) -> float | None:
        """Have it stored that nothing is left to say; the delay before the next attempt, where that cannot be."""
        if self._log.end is not None and self._log.end.successor_channel:
            try:
                await self._tell()
            except (SiteAgentError, OSError) as error:
                self._report(error)
                return self._backoff.next_delay_s()
        return None

    def _report(self, error: BaseException) -> None:
        if isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.UNAVAILABLE:
            _log.info("channel %s: %s cannot be reached: %s", self._log.id, self.from_site, error.details())
        elif isinstance(error, grpc.aio.AioRpcError | SiteAgentError | OSError):
            _log.warning("channel %s from %s was interrupted: %s", self._log.id, self.from_site, error)
        else:
            _log.error("channel %s from %s failed", self._log.id, self.from_site, exc_info=error)

    async def _pause(self, delay_s: float) -> None:
        try:
            async with asyncio.timeout(delay_s):
                await self._retry.wait()
        except TimeoutError:
            return

    async def _pull_once(self) -> None:
        try:
            await self._call()
        except grpc.aio.AioRpcError as error:
            first_epoch = _first_kept_epoch(error)
            if first_epoch is None or self._log.epochs.stored_bytes(self._log.next_epoch - 1):
                # The copy holds epochs, and would get a gap.
                raise
            await self._env.offload.run(self._log.begin_at, first_epoch)
            self._backoff.reset()

    async def _call(self) -> None:
        call = pull_call(await self._env.links.connection(self.from_site))
        self._granted_bytes = 0
        self._answers.clear()
        from_epoch = self._log.next_epoch
        storing = Storing(self._log, self._env.offload, self._env.backlog, stored=self._stored, reusable=self._reusable)
        storer = asyncio.create_task(storing.run())
        listener = asyncio.create_task(self._listen(call, from_epoch, storing))
        talker = asyncio.create_task(self._talk(call, from_epoch))
        try:
            await asyncio.wait({storer, listener}, return_when=asyncio.FIRST_COMPLETED)
            if listener.done():
                # Epochs that were complete before the call broke off are not sent again.
                await asyncio.wait({storer})
            storer.result()
            listener.result()
        finally:
            call.cancel()
            for task in (listener, storer, talker):
                task.cancel()
            await asyncio.gather(listener, storer, talker, return_exceptions=True)

    async def _listen(self, call: PullCall, from_epoch: int, storing: Storing) -> None:
        assembler = EpochAssembler(self._log.id, from_epoch)
        try:
            async with self._env.paced(call, self.from_site) as messages:
                with self._env.meter.transfer(self.from_site) as transfer:
                    await self._receive(messages, transfer, assembler, storing)
        finally:
            storing.close()

    async def _receive(
        self, messages: AsyncIterable[bytes], transfer: MeteredTransfer, assembler: EpochAssembler, storing: Storing
    ) -> None:
        async with aclosing(transfer.timed(messages)) as timed:
            async for data in timed:
                received = assembler.feed(data)
                self._sends()
                self._count(len(data), epochs=isinstance(received, ReceivedEpoch))
                transfer.count(len(data), idle_s=assembler.sender_idle_s, in_epoch=assembler.in_epoch)
                if isinstance(received, Standing):
                    await self._env.offload.run(self._log.learn, received)
                elif isinstance(received, Offer):
                    self._answer(received)
                elif isinstance(received, KnownEpoch):
                    await storing.put(await self._known(received))
                elif received is not None:
                    await storing.put(received)

    def _answer(self, offer: Offer) -> None:
        has = self._reusable is not None and offer.digest in self._reusable
        self._answers.append(pb.OfferAnswer(epoch=offer.epoch, has=has))
        self._something_to_say.set()

    async def _known(self, epoch: KnownEpoch) -> ReceivedEpoch:
        """The epoch with the rows that are here.

        Raises:
            CorruptEpochError: they are not here any more; the next call has them sent.
        """
        reusable = self._reusable
        rows = await self._env.offload.run(reusable.get, epoch.digest) if reusable is not None else None
        if rows is None:
            self._reusable = None
            raise CorruptEpochError(
                f"rows of channel {self._log.id} that came before are not here any more",
                ids={"channel": self._log.id, "epoch": str(epoch.manifest.epoch)},
            )
        return ReceivedEpoch(epoch.manifest, rows, sent=False)

    def _sends(self) -> None:
        self._refusals.clear()
        self._log.state.set_lost(None)

    def _stored(self, payload_bytes: int) -> None:
        self._granted_bytes += payload_bytes
        self._backoff.reset()
        self._something_to_say.set()

    async def _talk(self, call: PullCall, from_epoch: int) -> None:
        """Open the channel, then send acknowledgements, and credit for what was stored."""
        opening = pb.OpenChannel(
            channel=self._log.id,
            consumer=self._env.site,
            from_epoch=from_epoch,
            bins=self._needs(from_epoch).bins,
            credit_bytes=self._env.settings.window_bytes,
            follow=True,
            wants_standing=self._log.standing is None,
            planes=True,
            takes_offers=self._reusable is not None,
        )
        await call.write(pb.PullRequest(open=opening))
        said = 0
        said_ahead: Mapping[str, int] = {}
        while True:
            self._something_to_say.clear()
            while self._answers:
                await call.write(pb.PullRequest(answer=self._answers.popleft()))
            needs = self._needs(self._log.next_epoch)
            if needs.ahead != said_ahead:
                said_ahead = needs.ahead
                readers = [pb.ReaderCursor(reader=name, epoch=epoch) for name, epoch in sorted(said_ahead.items())]
                await call.write(pb.PullRequest(ahead=pb.ReadersAhead(readers=readers)))
            needed = min(needs.first, self._log.next_epoch)
            if needed > said:
                said = needed
                reached(FaultPoint.ACK_SENDING)
                await call.write(pb.PullRequest(acknowledge=pb.Acknowledge(epoch=said - 1)))
                reached(FaultPoint.ACK_SENT)
            if self._granted_bytes:
                credit, self._granted_bytes = pb.Credit(bytes=self._granted_bytes, onward_us=self.onward_us), 0
                await call.write(pb.PullRequest(credit=credit))
            if self._complete and said >= self._log.next_epoch:
                await call.done_writing()
                return
            await self._something_to_say.wait()

    def _count(self, size_bytes: int, *, epochs: int) -> None:
        for usage in (self.usage, self._link):
            usage.bytes += size_bytes
            usage.epochs += epochs


def _first_kept_epoch(error: grpc.aio.AioRpcError) -> int | None:
    detail = received_detail(error) if error.code() is grpc.StatusCode.OUT_OF_RANGE else None
    return int(detail.ids["first_epoch"]) if detail and "first_epoch" in detail.ids else None
