"""Calls that are waited for at the master's end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import grpc
import grpc.aio
import pytest

from master.api.interceptors import ErrorInterceptor
from master.base.pending import PendingCalls
from master.server import end
from tests.fakes import CountingHex


async def test_the_last_of_several_calls_is_waited_for() -> None:
    pending = PendingCalls()
    await pending.ended()
    with pending.counted():
        with pending.counted():
            pass
        waiting = asyncio.create_task(pending.ended())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_a_call_that_fails_has_ended() -> None:
    pending = PendingCalls()
    with pytest.raises(ValueError, match="no"), pending.counted():
        raise ValueError("no")
    await pending.ended()


async def test_calls_that_follow_something_are_waited_for_apart() -> None:
    pending = PendingCalls()
    with pending.followed():
        await pending.ended()
        waiting = asyncio.create_task(pending.left())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_a_call_that_follows_something_has_time_for_its_end(caplog: pytest.LogCaptureFixture) -> None:
    pending, cleaned = PendingCalls(), asyncio.Event()

    async def follow(request: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            yield b"1"
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.2)
            cleaned.set()

    server = grpc.aio.server(interceptors=(ErrorInterceptor(CountingHex(), pending),))
    handler = grpc.unary_stream_rpc_method_handler(follow)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", {"Follow": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_stream("/test.Service/Follow", None, None)(b"")
        assert await call.read() == b"1"
        await end(server, pending, timedelta(seconds=30))
        assert cleaned.is_set()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
