"""Authenticates and authorizes every call, applies limits, and writes the audit log."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from machine.clock import Clock
from master.access.audit import OK, Audit
from master.access.authentication import Authenticator, Identity
from master.access.caller import Call, begin
from master.access.rights import limit_exceeded
from master.base.clock import SteadyTime
from master.base.errors import (
    InvalidRequestError,
    MasterError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from planner.access.limits import Meters
from planner.access.methods import METHODS, Effect, Rule
from planner.access.principal import Kind, Principal
from planner.access.roles import roles_with
from planner.values.errors import PlannerError

Context = grpc.aio.ServicerContext[Any, Any]
# A string: the class takes parameters only in its stubs.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


@dataclass(frozen=True, slots=True)
class GateParts:
    """The parts that decide about calls."""

    authenticator: Authenticator
    meters: Meters
    audit: Audit
    clock: Clock


@dataclass(slots=True)
class _Visit:
    """A call on its way through the checks."""

    method: str
    rule: Rule | None
    """None: the table of methods does not list the method."""
    call: Call
    data: bytes
    """The serialized request; it is parsed only once its sender is authenticated and within its limits."""
    told: bool = False
    """The call is in the audit log."""


class AccessInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Admits calls by the table of rights. A refusal is raised, for the interceptor around this one."""

    def __init__(self, parts: GateParts) -> None:
        self._parts = parts
        self._steady = SteadyTime(parts.clock)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """See `grpc.aio.ServerInterceptor`."""
        # Any: a handler is a named tuple at runtime, which the stubs do not say; it is None for an unknown method.
        handler: Any = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        rule = METHODS.get(method)
        if handler is None or (rule is not None and rule.right is None):
            return cast(Handler, handler)
        read = functools.partial(_read, handler.request_deserializer, method)
        if handler.unary_unary is not None:
            call = self._unary(handler.unary_unary, read, (method, rule))
            return cast(Handler, handler._replace(request_deserializer=None, unary_unary=call))
        if inspect.isasyncgenfunction(handler.unary_stream):
            stream = self._stream(handler.unary_stream, read, (method, rule))
            return cast(Handler, handler._replace(request_deserializer=None, unary_stream=stream))
        if inspect.isasyncgenfunction(handler.stream_stream):
            both = self._both(handler.stream_stream, read, (method, rule))
            return cast(Handler, handler._replace(request_deserializer=None, stream_stream=both))
        # None of our services has such methods: what cannot be checked cannot be called.
        return grpc.unary_unary_rpc_method_handler(_refuse)

    def _unary(
        self,
        answer: Callable[[Any, Context], Awaitable[Any]],
        read: Callable[[bytes], Any],
        method: tuple[str, Rule | None],
    ) -> Callable[[bytes, Context], Awaitable[Any]]:
        @functools.wraps(answer)
        async def wrapped(data: bytes, context: Context) -> Any:
            visit = _visit(method, data, context)
            async with self._passing(visit, context, read) as (request, _):
                return await answer(request, context)

        return wrapped

    def _stream(
        self,
        answer: Callable[[Any, Context], AsyncIterator[Any]],
        read: Callable[[bytes], Any],
        method: tuple[str, Rule | None],
    ) -> Callable[[bytes, Context], AsyncIterator[Any]]:
        @functools.wraps(answer)
        async def wrapped(data: bytes, context: Context) -> AsyncIterator[Any]:
            visit = _visit(method, data, context)
            async with (
                self._passing(visit, context, read) as (request, identity),
                aclosing(cast("AsyncGenerator[Any]", answer(request, context))) as responses,
            ):
                async for response in responses:
                    if not identity.is_live():
                        raise UnauthenticatedError("the token was revoked or has expired meanwhile")
                    if visit.rule is not None and visit.rule.follows:
                        # The call may go on for days: its beginning is logged at once.
                        self._tell(visit, OK)
                    yield response

        return wrapped

    def _both(
        self,
        answer: Callable[[AsyncIterator[Any], Context], AsyncIterator[Any]],
        read: Callable[[bytes], Any],
        method: tuple[str, Rule | None],
    ) -> Callable[[AsyncIterator[bytes], Context], AsyncIterator[Any]]:
        """The first message is checked as a request is; those that follow it belong to it."""

        @functools.wraps(answer)
        async def wrapped(messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            rest = aiter(messages)
            visit = _visit(method, await anext(rest, b""), context)

            async def requests(first: Any) -> AsyncIterator[Any]:
                yield first
                async for data in rest:
                    if len(data) > visit.call.limits.message_bytes:
                        raise limit_exceeded(visit.call.principal, "message_bytes", visit.call.limits)
                    yield read(data)

            async with (
                self._passing(visit, context, read) as (request, _),
                aclosing(cast("AsyncGenerator[Any]", answer(requests(request), context))) as responses,
            ):
                async for response in responses:
                    yield response

        return wrapped

    @asynccontextmanager
    async def _passing(
        self, visit: _Visit, context: Context, read: Callable[[bytes], Any]
    ) -> AsyncIterator[tuple[Any, Identity]]:
        """Within the block, the request and its caller passed all checks; the call is logged at its end.

        Raises:
            UnauthenticatedError, LimitExceededError, PermissionDeniedError, InvalidRequestError
        """
        begin(visit.call)
        try:
            identity = await self._identity(visit, context)
            async with self._metered(visit, identity.principal):
                request = self._admitted(visit, identity.principal, read)
                yield request, identity
        except (MasterError, PlannerError) as error:
            self._tell(visit, error.code, refused=True)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            self._tell(visit, "CANCELLED")
            raise
        except BaseException:
            self._tell(visit, "INTERNAL")
            raise
        self._tell(visit, OK)

    async def _identity(self, visit: _Visit, context: Context) -> Identity:
        metadata = [(str(key), value) for key, value in context.invocation_metadata() or ()]
        identity = await self._parts.authenticator.identity(metadata, context.auth_context())
        visit.call.principal, visit.call.token = identity.principal, identity.token
        return identity

    @asynccontextmanager
    async def _metered(self, visit: _Visit, principal: Principal) -> AsyncIterator[None]:
        now, follows = self._steady.now(), visit.rule is not None and visit.rule.follows
        meter = self._parts.meters.of(principal, now)
        visit.call.limits = meter.limits
        if exceeded := meter.begin(now, follows=follows):
            raise limit_exceeded(principal, exceeded, meter.limits)
        try:
            if len(visit.data) > meter.limits.message_bytes:
                raise limit_exceeded(principal, "message_bytes", meter.limits)
            yield
        finally:
            meter.end(follows=follows)

    def _admitted(self, visit: _Visit, principal: Principal, read: Callable[[bytes], Any]) -> Any:
        """The request of a call that passed all checks. Raises PermissionDeniedError, InvalidRequestError."""
        rule = visit.rule
        if rule is None or rule.right is None:
            raise PermissionDeniedError(f"nobody may call {visit.method}", hint="it is in no table of rights")
        if not principal.may(rule.right):
            raise PermissionDeniedError(
                f"{principal.name} may not do that without the right to {rule.right.value}",
                hint=f"roles with it: {', '.join(roles_with(rule.right))}",
                ids={"principal": principal.name},
            )
        request = read(visit.data)
        field = rule.bound or (rule.site if principal.kind is Kind.SITE else "")
        name = str(getattr(request, field)) if field else ""
        if field and not principal.speaks_for(name):
            raise PermissionDeniedError(
                f"{principal.name} may not act for {name or 'all'}",
                hint=f"it is bound to {', '.join(sorted(principal.bound))}",
                ids={"principal": principal.name},
            )
        return request

    def _tell(self, visit: _Visit, outcome: str, *, refused: bool = False) -> None:
        """Write the call to the audit log, once. A call that only reads metadata is logged when it was refused."""
        looks = visit.rule is not None and visit.rule.effect is Effect.LOOKS
        if visit.told or (looks and not refused):
            return
        visit.told = True
        self._parts.audit.write(visit.call, outcome, self._parts.clock.now())


def _visit(method: tuple[str, Rule | None], data: bytes, context: Context) -> _Visit:
    name, rule = method
    return _Visit(name, rule, Call(name.removeprefix("/selat.v1."), str(context.peer())), data)


def _read(deserialize: Callable[[bytes], Any], method: str, data: bytes) -> Any:
    """Parse the request. Raises InvalidRequestError when it is not a message."""
    try:
        return deserialize(data)
    except DecodeError as error:
        raise InvalidRequestError(
            f"the request of {method} cannot be read: {error}", hint="send the message that the method takes"
        ) from error


async def _refuse(request: Any, context: Context) -> Any:
    raise PermissionDeniedError("nobody may call this method", hint="it is in no table of rights")
