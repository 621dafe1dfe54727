"""One call of ExchangeService.Pull to the gateway's agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import grpc
import grpc.aio

from contract.trailers import received_detail
from master.results.decode import EndOfChannel, EpochAssembler, SentEpoch
from selat.v1 import exchange_pb2, exchange_pb2_grpc

CLIENT_CONSUMER = "client"
UNLIMITED_BYTES = 1 << 62
"""All credit at once: HTTP/2 flow control stops the sender while nothing is read."""

_REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNIMPLEMENTED,
)

PullCall = grpc.aio.StreamStreamCall[exchange_pb2.PullRequest, exchange_pb2.PullResponse]


class GatewayAbsentError(Exception):
    """The agent could not be reached, or the call broke off; it may succeed later."""


class GatewayRefusedError(GatewayAbsentError):
    """The agent answered, but cannot give what was asked for."""


class EpochGoneError(Exception):
    """The agent no longer keeps that epoch."""

    def __init__(self, first_epoch: int) -> None:
        super().__init__(f"the first epoch that is kept is {first_epoch}")
        self.first_epoch = first_epoch


class ChannelAbsentError(Exception):
    """The agent keeps no copy of the channel (yet)."""


@dataclass(frozen=True, slots=True)
class PullTarget:
    channel: str
    from_epoch: int
    follow: bool
    """False: only epochs that are there now."""
    from_first: bool = False
    """Begin at the first epoch that is kept, and ignore `from_epoch`."""


async def pull(
    connection: grpc.aio.Channel, target: PullTarget, *, until: Callable[[], Awaitable[None]]
) -> AsyncGenerator[SentEpoch | EndOfChannel, None]:
    """Epochs in order, then the end if there is one; stops without it when `until` returns, or when not following.

    Raises:
        GatewayAbsentError (also GatewayRefusedError), ChannelAbsentError, EpochGoneError, CorruptResultsError
    """
    call = exchange_pb2_grpc.ExchangeServiceStub(connection).Pull(None)
    stop = asyncio.ensure_future(until())
    assembler = EpochAssembler(target.channel)
    try:
        await call.write(_open(target))
        while (response := await _read(call, stop)) is not None:
            item = assembler.take(response)
            if item is not None:
                yield item
            if isinstance(item, EndOfChannel):
                return
    except grpc.aio.AioRpcError as error:
        raise _failure(error, target) from error
    except asyncio.InvalidStateError as error:
        # Writing to a call that the other side has just ended.
        raise GatewayAbsentError("the call ended") from error
    finally:
        stop.cancel()
        call.cancel()


def _failure(error: grpc.aio.AioRpcError, target: PullTarget) -> Exception:
    if error.code() is grpc.StatusCode.NOT_FOUND:
        return ChannelAbsentError(f"it keeps no channel {target.channel}")
    first_epoch = _first_epoch(error)
    if first_epoch is not None:
        return EpochGoneError(first_epoch)
    kind = GatewayRefusedError if error.code() in _REFUSALS else GatewayAbsentError
    return kind(f"{error.code().name}: {error.details()}")


def _first_epoch(error: grpc.aio.AioRpcError) -> int | None:
    """The first epoch that the agent keeps, from its refusal of an earlier one; None for any other error."""
    if error.code() is not grpc.StatusCode.OUT_OF_RANGE:
        return None
    told = received_detail(error)
    with suppress(ValueError):
        return int(told.ids.get("first_epoch", "")) if told else None
    return None


async def _read(call: PullCall, stop: asyncio.Future[None]) -> exchange_pb2.PullResponse | None:
    """The next message; None at the end of the call or when stopped."""
    reading: asyncio.Future[object] = asyncio.ensure_future(call.read())
    try:
        await asyncio.wait((reading, cast("asyncio.Future[object]", stop)), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            return None
        response = reading.result()
        return response if isinstance(response, exchange_pb2.PullResponse) else None
    finally:
        if not reading.done():
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading


def _open(target: PullTarget) -> exchange_pb2.PullRequest:
    return exchange_pb2.PullRequest(
        open=exchange_pb2.OpenChannel(
            channel=target.channel,
            consumer=CLIENT_CONSUMER,
            from_epoch=target.from_epoch,
            credit_bytes=UNLIMITED_BYTES,
            follow=target.follow,
            from_first=target.from_first,
            planes=True,
        )
    )
