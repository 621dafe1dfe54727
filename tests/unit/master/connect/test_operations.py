"""Responses of an execution, on their way to a client that may come back for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any

import pytest
from pyspark.sql.connect import proto as pb

from master.base.errors import InvalidRequestError, OperationCancelledError, UnknownHandleError
from master.connect.operations import BUFFERED_BYTES, Operation


def operation(*, reattachable: bool = True) -> Operation:
    numbers = count()
    return Operation("o", frozenset(), reattachable, lambda: f"r{next(numbers)}")


def put_ids(response: Any, number: str) -> Any:
    response.response_id = number
    return response


async def made(number: int, size: int = 1) -> AsyncGenerator[Any, None]:
    for _ in range(number):
        yield pb.ExecutePlanResponse(arrow_batch=pb.ExecutePlanResponse.ArrowBatch(data=b"x" * size))


async def taken(found: Operation, after: str = "") -> list[str]:
    return [response.response_id async for response in found.follow(after)]


async def test_all_responses_in_order_and_again_from_any() -> None:
    found = operation()
    found.start(made(3), put_ids)
    assert await taken(found) == ["r0", "r1", "r2"]
    assert await taken(found, "r0") == ["r1", "r2"]
    assert (found.over, found.state) == (True, "SUCCEEDED")


async def test_what_is_released_is_forgotten() -> None:
    found = operation()
    found.start(made(3), put_ids)
    await taken(found)
    found.release("r1")
    assert await taken(found) == ["r2"]
    with pytest.raises(UnknownHandleError):
        await taken(found, "r0")
    found.release("r0")
    assert await taken(found) == ["r2"]


async def test_an_error_comes_after_what_was_before_it() -> None:
    async def failing() -> AsyncGenerator[Any, None]:
        yield pb.ExecutePlanResponse()
        raise InvalidRequestError("no")

    found = operation()
    found.start(failing(), put_ids)
    responses = aiter(found.follow())
    assert (await anext(responses)).response_id == "r0"
    with pytest.raises(InvalidRequestError):
        await anext(responses)
    assert found.state == "FAILED"


async def test_a_cancel_ends_readers_and_what_is_made() -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncGenerator[Any, None]:
        try:
            yield pb.ExecutePlanResponse()
            await asyncio.Event().wait()
        finally:
            ended.set()

    found = operation()
    found.start(endless(), put_ids)
    responses = aiter(found.follow())
    await anext(responses)
    assert found.cancel()
    with pytest.raises(OperationCancelledError):
        await anext(responses)
    await ended.wait()
    assert not found.cancel()
    assert found.state == "CANCELLED"
    await found.close()


@pytest.mark.parametrize("reattachable", [True, False])
async def test_only_so_much_waits_for_a_client(reattachable: bool) -> None:
    found = operation(reattachable=reattachable)
    found.start(made(6, BUFFERED_BYTES // 2), put_ids)
    seen = []
    async for response in found.follow():
        seen.append(response.response_id)
        if reattachable:
            found.release(response.response_id)
    assert seen == ["r0", "r1", "r2", "r3", "r4", "r5"]
