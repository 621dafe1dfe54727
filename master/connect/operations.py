"""Executions: their responses wait here until the client has released them, so that it may come back for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from master.base.errors import InvalidRequestError, OperationCancelledError, UnknownHandleError
from master.base.notify import Notifier

BUFFERED_BYTES = 32 * 1024 * 1024
"""More responses are not made while so much is neither sent nor released."""

Responses = AsyncGenerator[Any, None]
"""`ExecutePlanResponse`s without ids."""


@dataclass(slots=True)
class Operation:
    """One execution of a plan.

    It goes on without a reader for a while: a connection may break, and the client comes back for the rest.
    """

    id: str
    tags: frozenset[str]
    reattachable: bool
    new_id: Callable[[], str]
    """Makes ids of responses."""
    query: str = ""
    """The query of Selat that the plan became; empty: it has none, or not yet."""
    readers: int = 0
    left_s: float | None = None
    """Since when nobody reads, by a steady clock; None: somebody does, or did not begin yet."""
    _kept: deque[Any] = field(default_factory=deque)
    _first: int = 0
    """The number of the first response that is kept."""
    _bytes: int = 0
    _over: bool = False
    _error: Exception | None = None
    _changed: Notifier = field(default_factory=Notifier)
    _task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """All responses are made, or there was an error."""
        return self._over

    @property
    def state(self) -> str:
        """`RUNNING`, `SUCCEEDED`, `FAILED` or `CANCELLED`."""
        if not self._over:
            return "RUNNING"
        if self._error is None:
            return "SUCCEEDED"
        return "CANCELLED" if isinstance(self._error, OperationCancelledError) else "FAILED"

    def start(self, responses: Responses, put_ids: Callable[[Any, str], Any]) -> None:
        """Make the responses from now on, in a task with the context of the call."""
        self._task = asyncio.create_task(self._make(responses, put_ids))

    def cancel(self) -> bool:
        """End it, as on the client's demand; whether it was not over."""
        if self._over or self._task is None:
            return False
        self._end(OperationCancelledError("the operation was cancelled"))
        self._task.cancel()
        return True

    async def close(self) -> None:
        """End it and forget its responses."""
        self.cancel()
        self._kept.clear()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def follow(self, after: str = "") -> AsyncIterator[Any]:
        """The responses, from the one after that id on, up to the end.

        Raises:
            InvalidRequestError: that response is not kept any more.
            MasterError, PlannerError: how the execution failed.
        """
        number = self._number(after) + 1 if after else self._first
        if number < self._first:
            raise InvalidRequestError("the responses before are released", hint="execute the plan again")
        self.readers, self.left_s = self.readers + 1, None
        try:
            while True:
                version = self._changed.version
                if number < self._first + len(self._kept):
                    yield self._kept[number - self._first]
                    number += 1
                    if not self.reattachable:
                        self._release(number - 1)
                elif self._error is not None:
                    raise self._error
                elif self._over:
                    return
                else:
                    await self._changed.wait_beyond(version)
        finally:
            self.readers -= 1

    def release(self, until: str) -> None:
        """Forget the responses up to that one, which the client has."""
        if any(response.response_id == until for response in self._kept):
            self._release(self._number(until))

    def _number(self, response: str) -> int:
        for place, kept in enumerate(self._kept):
            if kept.response_id == response:
                return self._first + place
        raise UnknownHandleError("that response is not kept any more", ids={"condition": "INVALID_CURSOR.NOT_FOUND"})

    def _release(self, number: int) -> None:
        while self._kept and self._first <= number:
            self._bytes -= self._kept.popleft().ByteSize()
            self._first += 1
        self._changed.notify()

    async def _make(self, responses: Responses, put_ids: Callable[[Any, str], Any]) -> None:
        try:
            async with aclosing(responses):
                async for response in responses:
                    await self._room()
                    self._kept.append(put_ids(response, self.new_id()))
                    self._bytes += response.ByteSize()
                    self._changed.notify()
        except asyncio.CancelledError:
            self._end(OperationCancelledError("the operation was cancelled"))
        except Exception as error:  # noqa: BLE001 - raised to whoever reads
            self._end(error)
        else:
            self._end(None)

    async def _room(self) -> None:
        while self._bytes >= BUFFERED_BYTES:
            version = self._changed.version
            await self._changed.wait_beyond(version)

    def _end(self, error: Exception | None) -> None:
        if not self._over:
            self._over, self._error = True, error
            self._changed.notify()
