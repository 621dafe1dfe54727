"""Errors as Spark's clients show them: a class, a condition and a message, and details that they ask for."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import NoReturn

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from contract.trailers import ERROR_TRAILER, Context, shortened
from master.records.ids import RandomHex
from selat.v1.common_pb2 import ErrorDetail

KEPT = 1000
"""The number of errors whose details are kept."""

_ANALYSIS = "org.apache.spark.sql.AnalysisException"
_CLASSES: Mapping[str, str] = {
    "SYNTAX_ERROR": "org.apache.spark.sql.catalyst.parser.ParseException",
    "UNSUPPORTED_SQL": "java.lang.UnsupportedOperationException",
    "UNKNOWN_RELATION": _ANALYSIS,
    "INVALID_EXPRESSION": _ANALYSIS,
    "INVALID_DEFINITION": _ANALYSIS,
}
"""Java's class for an error of ours, by its code; others are SparkExceptions."""
_OTHER = "org.apache.spark.SparkException"

_CONDITIONS: Mapping[str, str] = {"UNKNOWN_RELATION": "TABLE_OR_VIEW_NOT_FOUND", "SYNTAX_ERROR": "PARSE_SYNTAX_ERROR"}
"""Spark's condition for an error of ours, by its code; others are `SELAT.` and the code."""

_MESSAGE_BYTES = 2000


class ErrorBook:
    """Details of errors, by an id that is sent with each; the oldest are forgotten."""

    def __init__(self, random_hex: RandomHex) -> None:
        self._random_hex = random_hex
        self._kept: OrderedDict[str, ErrorDetail] = OrderedDict()

    def get(self, error: str) -> ErrorDetail | None:
        """The details of that error; None: they are not kept any more."""
        return self._kept.get(error)

    async def abort(self, context: Context, status: grpc.StatusCode, told: ErrorDetail) -> NoReturn:
        """End a call as Spark's server does."""
        error = self._random_hex(32)
        self._kept[error] = told
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        code = _status(status)
        message = message_of(told)
        info = ErrorInfo(
            reason=class_of(told),
            domain="org.apache.spark",
            metadata={
                "classes": json.dumps([class_of(told)]),
                "errorClass": condition_of(told),
                "errorId": error,
                "messageParameters": "{}",
                "sqlState": "",
            },
        )
        packed = AnyMessage()
        packed.Pack(info)
        sent = Status(code=code.value[0], message=message, details=[packed])
        trailers = (("grpc-status-details-bin", sent.SerializeToString()), (ERROR_TRAILER, told.SerializeToString()))
        await context.abort(code, message, trailers)


def message_of(told: ErrorDetail) -> str:
    """The condition, the message and the hint."""
    hint = f" Hint: {told.hint}" if told.hint else ""
    return shortened(f"[{condition_of(told)}] {told.message}{hint}", _MESSAGE_BYTES)


def condition_of(told: ErrorDetail) -> str:
    """Spark's name for the error; for one of ours, its code with a prefix."""
    return told.ids.get("condition") or _CONDITIONS.get(told.code) or f"SELAT.{told.code}"


def class_of(told: ErrorDetail) -> str:
    """The Java class by which clients choose theirs."""
    return _CLASSES.get(told.code, _OTHER)


def _status(status: grpc.StatusCode) -> grpc.StatusCode:
    """Clients repeat a call that ends with UNAVAILABLE for minutes, without a word; our errors are to be read."""
    return grpc.StatusCode.FAILED_PRECONDITION if status is grpc.StatusCode.UNAVAILABLE else status
