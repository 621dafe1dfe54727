"""Errors of calls: what the caller is told, and the line in the log."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

import grpc
import grpc.aio
import pytest

from contract.trailers import ERROR_TRAILER
from machine.logs import JsonFormatter
from master.api.interceptors import ErrorInterceptor
from master.base.errors import UnknownQueryError
from master.base.pending import PendingCalls
from selat.v1 import common_pb2
from tests.fakes import CountingHex

METHOD = "/selat.v1.QueryService/GetQuery"
IDS = {"query": "q-1", "method": "GET", "code": "7", "message": "said", "what": "else"}


@dataclass
class AbortedError(Exception):
    code: grpc.StatusCode
    detail: common_pb2.ErrorDetail = field(default_factory=common_pb2.ErrorDetail)


class Context:
    """The part of a call's context that errors need."""

    async def abort(self, code: grpc.StatusCode, details: str, trailer: tuple[tuple[str, bytes], ...]) -> NoReturn:
        ((name, data),) = trailer
        assert name == ERROR_TRAILER
        raise AbortedError(code, common_pb2.ErrorDetail.FromString(data))


@dataclass(frozen=True)
class Details:
    method: str
    invocation_metadata: tuple[tuple[str, str], ...] = ()


async def answered_with(error: Exception) -> AbortedError:
    async def answer(request: Any, context: Any) -> Any:
        raise error

    async def continuation(details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(answer)

    interceptor = ErrorInterceptor(CountingHex(), PendingCalls())
    handler: Any = await interceptor.intercept_service(continuation, cast("grpc.HandlerCallDetails", Details(METHOD)))
    with pytest.raises(AbortedError) as caught:
        await handler.unary_unary(b"", Context())
    return caught.value


async def test_ids_may_have_the_names_that_the_line_itself_uses(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "master.api.interceptors"):
        told = await answered_with(UnknownQueryError("there is no query 'q-1'", ids=IDS))
    assert told.code is grpc.StatusCode.NOT_FOUND
    assert (told.detail.code, dict(told.detail.ids)) == ("UNKNOWN_QUERY", IDS)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"""call refused method={METHOD} code=UNKNOWN_QUERY message="there is no query 'q-1'" """
        "query=q-1 method_=GET code_=7 message_=said what=else"
    )
    assert '"code_": "7"' in JsonFormatter().format(record)
