from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from selat.transport import session as _session
from selat.transport.session import Session, Waits


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
