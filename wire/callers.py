"""Identifies the caller of every call by its certificate: one interceptor, at every server with TLS."""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import Message

from wire.certificates import Certificate, read_certificate
from wire.names import MemberName
from wire.rules import RULES, Rule
from wire.security import Security

Context = grpc.aio.ServicerContext[Any, Any]
# A string: the class takes parameters only in its stubs.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

LOOK_S = 1.0
"""Seconds after which the caller's certificate is checked again before the next message of an open call."""

logger = logging.getLogger("selat.wire")


@dataclass(frozen=True, slots=True)
class Refused:
    """The reason for which a call is not answered."""

    status: grpc.StatusCode
    code: str
    """Stable name, as docs/errors.md has it."""
    message: str
    hint: str


Refuse = Callable[[Context, Refused], Awaitable[NoReturn]]
"""Ends a refused call; each server writes errors in its own form."""


def caller_of(context: Context) -> Certificate | None:
    """The certificate of the other end; None without TLS, or when it cannot be read."""
    # The stubs leave out what a context without TLS gives.
    found: Any = context.auth_context() or {}
    for pem in found.get("x509_pem_cert", ()):
        try:
            return read_certificate(pem)
        except ValueError:
            return None
    return None


def name_of(context: Context) -> MemberName | None:
    """The caller's name; None without TLS."""
    certificate = caller_of(context)
    return certificate.member if certificate is not None else None


class CallerInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """The first of a server's interceptors. A call that goes on ends when its caller's certificate does."""

    def __init__(self, security: Security, refuse: Refuse, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._security = security
        self._refuse = refuse
        self._clock = clock

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        # Any: a handler is a named tuple at runtime, which the stubs do not say; it is None for an unknown method.
        handler: Any = await continuation(handler_call_details)
        if handler is None:
            return cast(Handler, handler)
        method = str(handler_call_details.method)
        kinds = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
        (kind,) = (kind for kind in kinds if getattr(handler, kind) is not None)
        call = getattr(handler, kind)
        streams = inspect.isasyncgenfunction(call)
        wrapped = self._streaming(call, method) if streams else self._answering(call, method)
        return cast(Handler, handler._replace(**{kind: wrapped}))

    def _answering(self, call: Callable[[Any, Context], Awaitable[Any]], method: str) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(call)
        async def wrapped(request: Any, context: Context) -> Any:
            return await call(await self._admitted(request, context, method), context)

        return wrapped

    def _streaming(
        self, call: Callable[[Any, Context], AsyncIterator[Any]], method: str
    ) -> Callable[..., AsyncIterator[Any]]:
        @functools.wraps(call)
        async def wrapped(request: Any, context: Context) -> AsyncIterator[Any]:
            admitted = await self._admitted(request, context, method)
            certificate = caller_of(context)
            looked_s = self._clock()
            async with aclosing(cast(Any, call(admitted, context))) as responses:
                async for response in responses:
                    if self._clock() - looked_s > LOOK_S:
                        looked_s = self._clock()
                        await self._look_again(context, method, certificate)
                    yield response

        return wrapped

    async def _admitted(self, request: Any, context: Context, method: str) -> Any:
        """The request or stream of requests, after the rule's claims were checked against the caller's name."""
        certificate = caller_of(context)
        refused = _unknown(self._security, certificate)
        caller = certificate.member if certificate is not None else None
        if refused is None and caller is not None:
            refused = _not_allowed(method, caller)
        if refused is not None or caller is None:
            await self._end(context, method, caller, refused or _NOBODY)
        claim = RULES[method][caller.role]
        if claim is None:
            return request
        if hasattr(request, "__aiter__"):
            first = await _first(request)
            wrong = claim.refused(first.message, caller) if isinstance(first.message, Message) else ""
            request = first.and_others(request)
        else:
            # An interceptor that could not read a request refuses it itself.
            wrong = claim.refused(request, caller) if isinstance(request, Message) else ""
        if wrong:
            await self._end(context, method, caller, _denied(wrong, "call in the name that your certificate has"))
        return request

    async def _look_again(self, context: Context, method: str, certificate: Certificate | None) -> None:
        refused = _unknown(self._security, certificate)
        if refused is not None:
            # The caller connects again: with a renewed certificate it is admitted, otherwise refused.
            found = replace(refused, status=grpc.StatusCode.UNAVAILABLE)
            await self._end(context, method, certificate.member if certificate else None, found)

    async def _end(self, context: Context, method: str, caller: MemberName | None, refused: Refused) -> NoReturn:
        logger.warning("call refused method=%s caller=%s peer=%s: %s", method, caller, context.peer(), refused.message)
        await self._refuse(context, refused)


def _unknown(security: Security, certificate: Certificate | None) -> Refused | None:
    if certificate is None or certificate.member is None:
        return _NOBODY
    reason = security.refuses(certificate)
    if not reason:
        return None
    message = f"the certificate {certificate.serial_text} of {certificate.member} is {reason}"
    hint = "have another issued: selat cert issue"
    return Refused(grpc.StatusCode.UNAUTHENTICATED, "CALLER_UNKNOWN", message, hint)


_NOBODY = Refused(
    grpc.StatusCode.UNAUTHENTICATED,
    "CALLER_UNKNOWN",
    "the caller's certificate does not name a member",
    "have one issued: selat cert issue",
)


def _not_allowed(method: str, caller: MemberName) -> Refused | None:
    rule: Rule | None = RULES.get(method)
    if rule is None:
        return _denied(f"nobody may call {method}: there is no rule for it", "")
    if caller.role not in rule:
        return _denied(
            f"{caller} may not call {method}", f"it is for {', '.join(f'a {role}' for role in rule)}: selat cert issue"
        )
    return None


def _denied(message: str, hint: str) -> Refused:
    return Refused(grpc.StatusCode.PERMISSION_DENIED, "CALLER_REFUSED", message, hint)


@dataclass(frozen=True, slots=True)
class _First:
    """The first message of a stream of requests, read ahead to check its claims."""

    message: Any = None
    """None when the stream is empty."""
    error: Exception | None = None

    async def and_others(self, others: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """The whole stream, the first message included."""
        if self.error is not None:
            raise self.error
        if self.message is None:
            return
        yield self.message
        async for message in others:
            yield message


async def _first(requests: AsyncIterator[Any]) -> _First:
    try:
        async for message in requests:
            return _First(message)
    except Exception as error:  # noqa: BLE001 - raised where it would have been
        return _First(error=error)
    return _First()
