"""Statements of a client, at a master that is none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import grpc
import pytest

import selat
from selat.client.client import Client
from selat.transport.session import Session, Waits
from selat.v1 import query_pb2


class Queries:
    """Answers a statement, and notes the calls that were heard out."""

    def __init__(self, end: grpc.RpcError | None) -> None:
        self.heard_out = 0
        self._end = end

    def Execute(self, request: Any, timeout: float) -> Iterator[query_pb2.ExecuteResponse]:
        yield query_pb2.ExecuteResponse(done="stream clicks created")
        self.heard_out += 1
        if self._end is not None:
            raise self._end


@pytest.mark.parametrize("end", [None, grpc.RpcError("the master is gone")])
def test_a_call_is_heard_out_and_what_was_done_stays_done(end: grpc.RpcError | None) -> None:
    queries = Queries(end)
    session = type("FakeSession", (), {"address": "none:1", "queries": queries})()
    session.waits = Waits(timedelta(seconds=1), timedelta(seconds=1))
    outcome = Client(cast(Session, session)).sql("CREATE STREAM clicks (id BIGINT)")
    assert isinstance(outcome, selat.Done)
    assert queries.heard_out == 1
