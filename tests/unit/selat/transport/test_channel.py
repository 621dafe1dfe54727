from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from selat.errors import InvalidArgument, NotFound, SelatError, ServerFault, StatementError, TimedOut, Unavailable
from selat.transport import channel as _transport
from selat.v1 import common_pb2

Code = grpc.StatusCode


class Failure(grpc.RpcError, grpc.Call):
    """A failed call."""

    def __init__(self, code: grpc.StatusCode, text: str = "", detail: common_pb2.ErrorDetail | bytes | None = None):
        self._code, self._text, self._detail = code, text, detail

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._text

    def trailing_metadata(self) -> Any:
        if self._detail is None:
            return ()
        raw = self._detail if isinstance(self._detail, bytes) else self._detail.SerializeToString()
        return (("other", "x"), ("selat-error-bin", raw))

    def initial_metadata(self) -> Any:
        return ()

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> float:
        return 0.0

    def cancel(self) -> None:
        pass

    def add_callback(self, callback: Callable[[], None]) -> bool:
        return False


@pytest.mark.parametrize(
    ("given", "variable", "expected"),
    [
        ("eu.example.com:7000", "", "eu.example.com:7000"),
        ("eu.example.com", "", "eu.example.com:7410"),
        ("[::1]:7000", "", "[::1]:7000"),
        ("[::1]", "", "[::1]:7410"),
        (None, "10.0.0.1", "10.0.0.1:7410"),
        (None, "", "127.0.0.1:7410"),
        ("a", "b", "a:7410"),
    ],
)
def test_resolve_address(given: str | None, variable: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELAT_MASTER", variable)
    assert _transport.resolve_address(given) == expected


@pytest.mark.parametrize("given", ["http://a:1", "a:0", "a:65536", "a b", "a:x", "::1"])
def test_no_address(given: str) -> None:
    with pytest.raises(InvalidArgument, match="is not an address"):
        _transport.resolve_address(given)


@pytest.mark.parametrize(
    ("code", "line", "expected"),
    [
        (Code.INVALID_ARGUMENT, 3, StatementError),
        (Code.FAILED_PRECONDITION, 0, StatementError),
        (Code.ALREADY_EXISTS, 0, StatementError),
        (Code.NOT_FOUND, 0, NotFound),
        (Code.NOT_FOUND, 2, StatementError),
        (Code.UNAVAILABLE, 0, Unavailable),
        (Code.DEADLINE_EXCEEDED, 0, TimedOut),
        (Code.INTERNAL, 0, ServerFault),
    ],
)
def test_an_error_that_the_master_describes(code: grpc.StatusCode, line: int, expected: type[SelatError]) -> None:
    said = common_pb2.ErrorDetail(
        code="SOME_CODE", message="m", line=line, column=line, found="f", hint="h", ids={"query": "q"}
    )
    error = _transport.to_error(Failure(code, "m", said), "a:1")
    assert type(error) is expected
    assert (error.code, error.message, error.line, error.found, error.hint) == ("SOME_CODE", "m", line, "f", "h")
    assert error.ids == {"query": "q"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Code.UNAVAILABLE, Unavailable),
        (Code.CANCELLED, Unavailable),
        (Code.DEADLINE_EXCEEDED, TimedOut),
        (Code.NOT_FOUND, NotFound),
        (Code.INVALID_ARGUMENT, StatementError),
        (Code.UNIMPLEMENTED, ServerFault),
        (Code.UNKNOWN, ServerFault),
    ],
)
@pytest.mark.parametrize("trailer", [None, b"\xff\xff"])
def test_an_error_that_nobody_describes(
    code: grpc.StatusCode, expected: type[SelatError], trailer: bytes | None
) -> None:
    error = _transport.to_error(Failure(code, "why", trailer), "a:1")
    assert type(error) is expected
    assert "a:1" in error.message or "why" in error.message


def test_an_unreachable_master_is_explained_by_the_last_words_of_grpc() -> None:
    text = "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:1: Connection refused"
    error = _transport.to_error(Failure(Code.UNAVAILABLE, text), "a:1")
    assert error.message == "no master answers at a:1 (Connection refused)"
