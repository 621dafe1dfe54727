"""IngestService: clients' pushes to the streams of this site."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import suppress

from contract.trailers import Context
from selat.v1 import ingest_pb2 as pb
from selat.v1.ingest_pb2_grpc import IngestServiceServicer
from site_agent.base.errors import IngestError, PushRequestError, SiteAgentError
from site_agent.base.offload import Offload
from site_agent.base.status import abort
from site_agent.engine.messages import columns_to_proto
from site_agent.ingest import Acknowledged, Push
from site_agent.ingest.intake import Intake
from site_agent.ingest.streams import PushStreams

logger = logging.getLogger(__name__)

_PRODUCER = re.compile(r"[!-~]{1,128}")
_LARGEST_SEQUENCE = 2**63 - 1

UNANSWERED = 4
"""Batches of one call that are decoded and wait for the disk; beyond that, the connection is not read."""
WAITING_NOTICE_S = 1.0
"""After this time without room, the client is told why."""

Answer = asyncio.Future[Acknowledged]


class IngestServicer(IngestServiceServicer):
    """Add it to a `grpc.aio` server."""

    def __init__(self, streams: PushStreams) -> None:
        self._streams = streams
        self._offload = Offload("selat-ingest-rows")

    async def Push(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.PushRequest], context: Context
    ) -> AsyncIterator[pb.PushResponse]:
        try:
            opening = await _opening(request_iterator)
            intake = self._streams.intake(opening.stream, opening.site)
            producer = _producer(opening.producer)
            columns = columns_to_proto(intake.rows.columns)
            last = intake.log.last_sequence(producer)
            yield pb.PushResponse(opened=pb.PushOpened(last_sequence=last, columns=columns))
            call = PushCall(intake, producer, self._offload)
            async for response in call.responses(request_iterator):
                yield response
        except SiteAgentError as error:
            await abort(context, error)

    async def GetProducer(  # noqa: N802
        self, request: pb.GetProducerRequest, context: Context
    ) -> pb.GetProducerResponse:
        try:
            log = self._streams.intake(request.stream, request.site).log
            last = log.last_sequence(_producer(request.producer))
            return pb.GetProducerResponse(last_sequence=last, ended=log.ended)
        except SiteAgentError as error:
            await abort(context, error)

    async def Finish(self, request: pb.FinishRequest, context: Context) -> pb.FinishResponse:  # noqa: N802
        try:
            return pb.FinishResponse(rows=await self._streams.intake(request.stream, request.site).finish())
        except SiteAgentError as error:
            await abort(context, error)

    def close(self) -> None:
        """Release resources after the server has stopped."""
        self._offload.close()


class PushCall:
    """One call of Push: reads ahead of the disk, and answers in order."""

    def __init__(self, intake: Intake, producer: str, offload: Offload) -> None:
        self._intake = intake
        self._producer = producer
        self._offload = offload
        self._answers: asyncio.Queue[Answer | SiteAgentError | None] = asyncio.Queue(UNANSWERED)

    async def responses(self, requests: AsyncIterator[pb.PushRequest]) -> AsyncIterator[pb.PushResponse]:
        """Answers until the client has sent its last batch and all batches are acknowledged.

        Raises:
            SiteAgentError: a batch was refused; those before it are acknowledged, those after it are not stored.
        """
        reading = asyncio.create_task(self._read(requests))
        answer: Answer | None = None
        try:
            while (item := await self._answers.get()) is not None:
                if isinstance(item, SiteAgentError):
                    raise item
                answer = item
                async for notice in self._until_done(answer):
                    yield notice
                done = answer.result()
                yield pb.PushResponse(
                    acknowledge=pb.PushAcknowledge(sequence=done.sequence, rows=done.rows, duplicate=done.duplicate)
                )
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            self._abandon(answer)

    async def _read(self, requests: AsyncIterator[pb.PushRequest]) -> None:
        """Decode and submit batch by batch; an error takes its batch's place among the answers."""
        try:
            async for request in requests:
                await self._answers.put(await self._submit(request))
        except SiteAgentError as error:
            await self._answers.put(error)
        except Exception as error:
            # The top of the call's reading: whatever the error was, the client must not wait for ever.
            logger.exception("unexpected error producer=%s", self._producer)
            await self._answers.put(IngestError(f"internal error: {type(error).__name__}: {error}"))
        else:
            await self._answers.put(None)

    async def _submit(self, request: pb.PushRequest) -> Answer:
        if request.WhichOneof("message") != "batch":
            raise PushRequestError("only batches follow the opening of a push", hint="begin another call")
        batch = request.batch
        if not 0 < batch.sequence <= _LARGEST_SEQUENCE:
            raise PushRequestError(f"sequence {batch.sequence} is none", hint="the first sequence is 1")
        rows = await self._offload.run(self._intake.rows.take, batch.arrow_stream)
        return self._intake.submit(Push(self._producer, batch.sequence, rows))

    async def _until_done(self, answer: Answer) -> AsyncIterator[pb.PushResponse]:
        """Return when there is an answer; meanwhile tell the client why it waits."""
        told = ""
        while not answer.done():
            await asyncio.wait({answer}, timeout=WAITING_NOTICE_S)
            reason = self._intake.waiting
            if not answer.done() and reason and reason != told:
                told = reason
                yield pb.PushResponse(waiting=pb.PushWaiting(reason=reason))

    def _abandon(self, answer: Answer | None) -> None:
        """Give up these batches; the client sends what was not acknowledged again."""
        unheard = [] if answer is None else [answer]
        with suppress(asyncio.QueueEmpty):
            while True:
                item = self._answers.get_nowait()
                if isinstance(item, asyncio.Future):
                    unheard.append(item)
        for item in unheard:
            item.cancel()
            if item.done() and not item.cancelled():
                # Retrieved, so that asyncio does not report the error as unhandled.
                item.exception()


async def _opening(requests: AsyncIterator[pb.PushRequest]) -> pb.OpenPush:
    async for request in requests:
        if request.WhichOneof("message") == "open":
            return request.open
        break
    raise PushRequestError("the first message of a call must open a push", hint="set open")


def _producer(text: str) -> str:
    if not _PRODUCER.fullmatch(text):
        raise PushRequestError(
            f"{text[:128]!r} cannot be a producer's id", hint="1 to 128 visible ASCII characters, without spaces"
        )
    return text
