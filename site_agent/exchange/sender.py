"""The sending side of one Pull call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator

from machine.faults import reached
from selat.v1 import exchange_pb2 as pb
from site_agent.base.errors import ChannelError, ChannelRequestError
from site_agent.base.faults import FaultPoint
from site_agent.base.offload import Offload
from site_agent.channels.codec import EncodedRows
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EpochManifest
from site_agent.channels.reuse import LEAST_BYTES, digest_of
from site_agent.exchange.convert import end_to_proto, manifest_to_proto, standing_to_proto
from site_agent.exchange.credit import Credit
from site_agent.exchange.outbound import Outbound
from site_agent.exchange.selection import Selection, read_selected
from site_agent.exchange.turns import Flow, Turns
from site_agent.exchange.wire import Response, part_of_epoch

CLIENT_CONSUMER = "client"
"""The name of a reader that retains nothing and acknowledges nothing."""
PIECE_BYTES = 1024 * 1024
_INLINE_BYTES = 256 * 1024
_INLINE_SELECTED_BYTES = 32 * 1024
_MOST_IDLE_US = 2**32 - 1

_Epoch = tuple[EpochManifest, EncodedRows | None]


class Sender:
    """Sends a channel's epochs from the requested one on, within the credit that the reader grants."""

    def __init__(
        self, log: ChannelLog, request: pb.OpenChannel, offload: Offload, turns: Turns, outbound: Outbound
    ) -> None:
        """Raises ChannelRequestError or ChannelError when the request makes no sense."""
        if not request.consumer:
            raise ChannelRequestError("no consumer is named", hint=f"name the reading site, or {CLIENT_CONSUMER!r}")
        # A reader may have got further in the channel that continues this one.
        continued = log.end is not None and bool(log.end.successor_channel)
        if request.from_epoch > log.next_epoch and not request.from_first and not continued:
            raise ChannelError(
                f"epoch {request.from_epoch} was asked for, but channel {log.id} is only at {log.next_epoch}",
                hint="the channel was lost at its site, or another one has its name",
                ids={"channel": log.id},
            )
        self._log = log
        self._request = request
        self._offload = offload
        self._turns = turns
        self._flow = Flow()
        self._credit = Credit(request.credit_bytes)
        self._selection = Selection(tuple(request.columns), tuple(request.bins), request.planes)
        self._position = log.first_epoch if request.from_first else min(request.from_epoch, log.next_epoch)
        self._schema = b""
        self._reader: asyncio.Task[None] | None = None
        self._ahead: asyncio.Task[_Epoch] | None = None
        self._answers: dict[int, bool] = {}
        self._answered = asyncio.Event()
        self._silent = False
        """The reader says nothing more."""
        self._now_s = asyncio.get_running_loop().time
        self._handed_over_s = self._now_s()
        self._outbound = outbound
        self._call = outbound.call(request.consumer, log.id, self._position, yields=log.yields)

    async def responses(self, requests: AsyncIterator[pb.PullRequest]) -> AsyncIterator[Response]:
        """The messages to send; processes the reader's grants and acknowledgements meanwhile.

        Raises:
            ChannelError: the epoch is not kept, damaged, or the reader broke the rules.
        """
        self._reader = reader = asyncio.create_task(self._follow_reader(requests))
        try:
            standing = self._log.standing if self._request.wants_standing else None
            if standing is not None and standing.next_epoch == self._position and self._log.end is None:
                yield pb.PullResponse(standing=standing_to_proto(standing))
            async for response in self._epochs():
                yield response
            if self._log.end is not None and self._position == self._log.next_epoch:
                yield pb.PullResponse(end=end_to_proto(self._log.end))
                if self._request.follow and self._request.consumer != CLIENT_CONSUMER:
                    # The reader acknowledges what it has; it closes its side once it has acknowledged the last epoch.
                    await reader
                    if self._log.end.successor_channel:
                        await self._offload.run(self._log.passed_end, self._request.consumer)
        finally:
            tasks = [task for task in (reader, self._ahead) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._outbound.end(self._request.consumer, self._log.id, self._call)

    async def _epochs(self) -> AsyncIterator[Response]:
        stop = None if self._request.follow else self._log.next_epoch
        while stop is None or self._position < stop:
            self._check_reader()
            # Without a wait there is no task of the event loop to pay for: epochs may be small and many.
            if self._position >= self._log.next_epoch:
                await self._unless_reader_fails(self._log.state.wait(self._position))
            if self._position >= self._log.next_epoch:
                return
            stored_bytes = self._log.epochs.stored_bytes(self._position)
            if not self._call.may_send(stored_bytes):
                await self._unless_reader_fails(self._call.turn(stored_bytes))
            turn = self._turns.take(self._flow, stored_bytes)
            if turn is not None:
                await self._unless_reader_fails(turn)
            manifest, encoded = await self._next()
            if encoded is not None and self._request.takes_offers and len(encoded.payload) >= LEAST_BYTES:
                digest = await self._offload.run(digest_of, encoded)
                yield pb.PullResponse(offer=pb.EpochOffer(epoch=manifest.epoch, sha256=digest))
                await self._unless_reader_fails(self._until_answered(manifest.epoch))
                if self._answers.pop(manifest.epoch, False):
                    self._read_ahead(self._position + 1)
                    self._call.sent(manifest.epoch, 0)
                    yield _known(manifest, digest)
                    self._position += 1
                    continue
            if not self._credit.take_now(manifest.size_bytes):
                await self._unless_reader_fails(self._credit.take(manifest.size_bytes))
            self._read_ahead(self._position + 1)
            self._call.sent(manifest.epoch, manifest.size_bytes)
            for response in self._messages(manifest, encoded):
                yield response
                # The transport takes a message once it has room: until then this waits for the link.
                self._handed_over_s = self._now_s()
            reached(FaultPoint.EPOCH_SENT)
            self._position += 1

    async def _until_answered(self, epoch: int) -> None:
        """Return when the reader has said whether it has what was offered, or will say nothing more."""
        while epoch not in self._answers and not self._silent:
            self._answered.clear()
            await self._answered.wait()

    async def _next(self) -> _Epoch:
        if self._ahead is None:
            return await self._read(self._position)
        ahead, self._ahead = self._ahead, None
        return await ahead

    def _read_ahead(self, epoch: int) -> None:
        """Read a large epoch while the one before it is being sent."""
        if epoch < self._log.next_epoch and not self._quickly_read(epoch):
            self._ahead = asyncio.create_task(self._read(epoch))

    async def _read(self, epoch: int) -> _Epoch:
        if self._quickly_read(epoch):
            return read_selected(self._log, epoch, self._selection)
        return await self._offload.run(read_selected, self._log, epoch, self._selection)

    def _quickly_read(self, epoch: int) -> bool:
        """Whether reading is faster than starting a thread for it. An epoch of which only a selection is sent is
        decoded and encoded again, which takes longer."""
        limit_bytes = _INLINE_BYTES if self._selection.as_stored else _INLINE_SELECTED_BYTES
        return self._log.epochs.stored_bytes(epoch) <= limit_bytes

    def _messages(self, manifest: EpochManifest, encoded: EncodedRows | None) -> Iterator[Response]:
        described = manifest_to_proto(manifest)
        idle_us = self._idle_us()
        if encoded is None:
            yield part_of_epoch(manifest.epoch, b"", described, idle_us=idle_us)
            return
        if encoded.schema != self._schema:
            self._schema = encoded.schema
            yield pb.PullResponse(schema=encoded.schema)
        payload = memoryview(encoded.payload)
        last = (len(payload) - 1) // PIECE_BYTES
        for number in range(last + 1):
            piece = payload[number * PIECE_BYTES : (number + 1) * PIECE_BYTES]
            yield part_of_epoch(manifest.epoch, piece, described if number == last else None, idle_us=idle_us)
            idle_us = self._idle_us()

    def _idle_us(self) -> int:
        """How long the transport has had nothing more to send."""
        return min(_MOST_IDLE_US, int((self._now_s() - self._handed_over_s) * 1e6))

    async def _follow_reader(self, requests: AsyncIterator[pb.PullRequest]) -> None:
        async for request in requests:
            kind = request.WhichOneof("message")
            if kind == "credit":
                self._credit.grant(request.credit.bytes)
                self._outbound.goes_on(self._request.consumer, self._log.id, request.credit.onward_us / 1e6)
                self._call.stored(request.credit.bytes)
            elif kind == "answer":
                self._answers[request.answer.epoch] = request.answer.has
                self._answered.set()
            elif kind == "ahead":
                await self._offload.run(self._note_ahead, request.ahead)
            elif kind == "acknowledge":
                if self._request.consumer != CLIENT_CONSUMER:
                    reached(FaultPoint.ACK_RECEIVED)
                    await self._offload.run(self._log.acknowledge, self._request.consumer, request.acknowledge.epoch)
                    reached(FaultPoint.ACK_TAKEN)
            else:
                raise ChannelRequestError("only the first message of a call opens a channel")
        self._credit.close()
        self._silent = True
        self._answered.set()

    def _note_ahead(self, ahead: pb.ReadersAhead) -> None:
        for cursor in ahead.readers:
            self._log.readers.passed(self._request.consumer, cursor.reader, cursor.epoch)

    def _check_reader(self) -> None:
        """Raises the error for what the reader did wrong, if it did."""
        if self._reader is not None and self._reader.done():
            self._reader.result()

    async def _unless_reader_fails(self, waiting: Awaitable[None]) -> None:
        assert self._reader is not None
        task = asyncio.ensure_future(waiting)
        try:
            while not task.done():
                pending = {task} if self._reader.done() else {task, self._reader}
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if self._reader.done():
                    self._reader.result()
            task.result()
        finally:
            task.cancel()


def _known(manifest: EpochManifest, digest: bytes) -> Response:
    """An epoch without its rows, which the reader has."""
    return pb.PullResponse(part=pb.EpochPart(epoch=manifest.epoch, manifest=manifest_to_proto(manifest), sha256=digest))
