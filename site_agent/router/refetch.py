"""Fetches one epoch of a copy again, because the copy's file is damaged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import grpc
import grpc.aio

from selat.v1 import exchange_pb2 as pb
from site_agent.base.errors import CorruptEpochError
from site_agent.channels.codec import verify
from site_agent.channels.log import ChannelLog
from site_agent.exchange.assembler import EpochAssembler, ReceivedEpoch
from site_agent.exchange.sender import CLIENT_CONSUMER
from site_agent.exchange.wire import pull_call
from site_agent.router.backoff import Backoff
from site_agent.router.pull import PullEnvironment

_log = logging.getLogger(__name__)

_FINAL = (grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.DATA_LOSS)
"""Statuses of a producer that is reachable and cannot send the epoch."""


async def refetch(
    log: ChannelLog, epoch: int, *, from_site: str, bins: Sequence[int], environment: PullEnvironment
) -> None:
    """Repair the epoch with the producer's; waits as long as the producer is unreachable. `bins` are those of the copy.

    Raises:
        CorruptEpochError: the producer cannot give it either, or it is damaged again at once.
    """
    backoff = Backoff(environment.settings.random)
    while True:
        try:
            received = await _receive(log.id, epoch, bins, await environment.links.connection(from_site))
            break
        except grpc.aio.AioRpcError as error:
            if error.code() in _FINAL:
                raise _lost(log, epoch, f"{from_site} cannot send it again: {error.details()}") from error
            _log.info("channel %s: %s cannot send epoch %d again now: %s", log.id, from_site, epoch, error.details())
        except CorruptEpochError as error:
            _log.warning("channel %s: epoch %d came damaged again: %s", log.id, epoch, error)
        await asyncio.sleep(backoff.next_delay_s())
    await environment.offload.run(log.put_right, received.manifest, received.encoded)
    await environment.offload.run(log.epochs.read_encoded, epoch)
    _log.warning("channel %s: epoch %d was damaged here and was fetched from %s again", log.id, epoch, from_site)


async def _receive(channel: str, epoch: int, bins: Sequence[int], connection: grpc.aio.Channel) -> ReceivedEpoch:
    call = pull_call(connection)
    # As `client`, the call neither retains nor acknowledges epochs; a credit of one byte allows one epoch.
    opening = pb.OpenChannel(
        channel=channel, consumer=CLIENT_CONSUMER, from_epoch=epoch, bins=bins, credit_bytes=1, planes=True
    )
    assembler = EpochAssembler(channel, epoch)
    try:
        await call.write(pb.PullRequest(open=opening))
        async for data in call:
            received = assembler.feed(data)
            if isinstance(received, ReceivedEpoch):
                if received.encoded is not None:
                    verify(received.encoded)
                return received
    finally:
        call.cancel()
    raise CorruptEpochError(f"channel {channel} ended before epoch {epoch}", ids={"channel": channel})


def _lost(log: ChannelLog, epoch: int, why: str) -> CorruptEpochError:
    name = f"{epoch:012d}.epoch"
    return CorruptEpochError(
        f"epoch file {name} of channel {log.id} is damaged, and {why}",
        hint="run the query again",
        ids={"channel": log.id, "epoch": str(epoch), "file": name},
    )
