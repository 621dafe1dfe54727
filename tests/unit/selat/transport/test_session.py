from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import grpc
import pytest

from selat.errors import InvalidArgument
from selat.transport import session as _session
from selat.transport.channel import translated
from selat.transport.retry import Reconnect
from selat.transport.session import Call, Following, Session, Waits


class Channel:
    """A channel whose `close` waits for a call that never ends."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def close(self) -> None:
        self.ended.wait()


def test_a_session_closes_although_grpc_waits_for_an_interrupted_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_session, "CLOSE_LIMIT", timedelta(milliseconds=1))
    session = Session("127.0.0.1:1", Waits(call=timedelta(seconds=1), reconnect=timedelta(seconds=1)))
    session._channel.close()
    session._channel = channel = Channel()  # type: ignore[assignment]
    session.close()
    channel.ended.set()


class NeverRead:
    """A call that is cancelled before anything is read from it."""

    def __init__(self) -> None:
        self.cancelled = False

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("a closed follower reads")

    def cancel(self) -> None:
        self.cancelled = True


def test_a_follower_closed_while_its_call_is_opened_ends() -> None:
    call = NeverRead()

    def open_and_close() -> Call[str]:
        following.close()
        return call

    retry = Reconnect(timedelta(seconds=1), "a stream")
    following = Following(open_and_close, lambda: False, address="127.0.0.1:1", retry=retry)
    assert list(following.messages()) == []
    assert call.cancelled


def test_whoever_uses_a_closed_client_is_told_so() -> None:
    channel = grpc.insecure_channel("127.0.0.1:1")
    channel.close()
    with pytest.raises(InvalidArgument, match="the client is closed"), translated("127.0.0.1:1"):
        channel.unary_unary("/a/B", None, None)(b"")
    with pytest.raises(ValueError, match="another"), translated("127.0.0.1:1"):
        raise ValueError("another mistake")
