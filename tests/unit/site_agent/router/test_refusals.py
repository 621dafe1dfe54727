"""The time after which readers are told that a channel is lost, by a given clock."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from contract.trailers import ERROR_TRAILER
from site_agent.base.errors import (
    ChannelError,
    CorruptEpochError,
    LostChannelError,
    SiteAgentError,
    TrimmedEpochError,
    UnconfirmedChannelsError,
    UnknownChannelError,
)
from site_agent.base.status import detail_of, status_of
from site_agent.router.refusals import PATIENCE_S, Refusals

GONE = UnknownChannelError("no channel c here")


def answered(error: SiteAgentError) -> grpc.aio.AioRpcError:
    detail = detail_of(error).SerializeToString()
    trailer = grpc.aio.Metadata((ERROR_TRAILER, detail))
    return grpc.aio.AioRpcError(status_of(error), grpc.aio.Metadata(), trailer, error.message, None)


def failed(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "a proxy said so", None)


@pytest.mark.parametrize("error", [GONE, TrimmedEpochError("gone"), ChannelError("it is only at 3")])
def test_a_minute_of_refusals_and_nothing_else_is_enough(error: SiteAgentError) -> None:
    refusals = Refusals("c", "ewr")
    for second in range(60):
        assert refusals.add(answered(error), 1000.0 + second) is None
    lost = refusals.add(answered(error), 1000.0 + PATIENCE_S)
    assert isinstance(lost, LostChannelError)
    assert lost.message == f"ewr does not send channel c, and has refused for 60 s: {error.message}"
    assert (lost.ids, lost.hint != "") == ({"channel": "c", "site": "ewr"}, True)


@pytest.mark.parametrize(
    "between",
    [
        failed(grpc.StatusCode.UNAVAILABLE),
        failed(grpc.StatusCode.NOT_FOUND),
        answered(CorruptEpochError("damaged")),
        answered(UnconfirmedChannelsError("no channel c here yet")),
        SiteAgentError("nobody knows where ewr is"),
        OSError("no route"),
    ],
    ids=[
        "cannot be reached",
        "not of the site's own saying",
        "damage",
        "not heard from the master",
        "no address",
        "no network",
    ],
)
def test_what_is_no_refusal_begins_the_minute_anew(between: BaseException) -> None:
    refusals = Refusals("c", "ewr")
    refusals.add(answered(GONE), 0.0)
    assert refusals.add(between, 59.0) is None
    assert refusals.add(answered(GONE), 61.0) is None
    assert refusals.add(answered(GONE), 120.0) is None
    assert refusals.add(answered(GONE), 121.0) is not None


def test_so_does_whatever_is_sent() -> None:
    refusals = Refusals("c", "ewr")
    refusals.add(answered(GONE), 0.0)
    refusals.clear()
    assert refusals.add(answered(GONE), 61.0) is None


def test_a_site_that_does_not_answer_refuses_nothing() -> None:
    refusals = Refusals("c", "ewr")
    for hour in range(10):
        assert refusals.add(failed(grpc.StatusCode.UNAVAILABLE), hour * 3600.0) is None
