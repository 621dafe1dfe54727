"""Errors as Spark's clients read them."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from contract.trailers import detail
from master.connect.errors import KEPT, ErrorBook
from tests.fakes import CountingHex


class Context:
    """Notes how a call ends."""

    def __init__(self) -> None:
        self.ended: list[tuple[Any, str, Any]] = []

    async def abort(self, code: grpc.StatusCode, message: str, trailers: Any) -> None:
        self.ended.append((code, message, dict(trailers)))


@pytest.mark.parametrize(
    ("code", "ids", "condition", "kind"),
    [
        ("UNSUPPORTED_SQL", {}, "SELAT.UNSUPPORTED_SQL", "java.lang.UnsupportedOperationException"),
        ("UNKNOWN_RELATION", {}, "TABLE_OR_VIEW_NOT_FOUND", "org.apache.spark.sql.AnalysisException"),
        ("INVALID_EXPRESSION", {"condition": "A.B"}, "A.B", "org.apache.spark.sql.AnalysisException"),
        ("NOT_GRANTED", {}, "SELAT.NOT_GRANTED", "org.apache.spark.SparkException"),
    ],
)
async def test_class_condition_and_details(code: str, ids: dict[str, str], condition: str, kind: str) -> None:
    book, context = ErrorBook(CountingHex()), Context()
    told = detail(code, "what is wrong", hint="what is right", ids=ids)
    await book.abort(context, grpc.StatusCode.UNAVAILABLE, told)  # type: ignore[arg-type]
    ((status, message, trailers),) = context.ended
    assert status is grpc.StatusCode.FAILED_PRECONDITION
    assert message == f"[{condition}] what is wrong Hint: what is right"
    info = ErrorInfo()
    Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(info)
    assert (info.reason, info.metadata["errorClass"]) == (kind, condition)
    assert book.get(info.metadata["errorId"]) == told


async def test_old_details_are_forgotten() -> None:
    book, context = ErrorBook(CountingHex()), Context()
    for _ in range(KEPT + 1):
        await book.abort(context, grpc.StatusCode.INTERNAL, detail("X", "y"))  # type: ignore[arg-type]
    assert len(book._kept) == KEPT
