from __future__ import annotations

import pickle

import pytest

from selat import errors
from selat.errors import Detail, SelatError

LEAVES = [
    errors.Unavailable,
    errors.ConnectionLost,
    errors.TimedOut,
    errors.StatementError,
    errors.NotFound,
    errors.QueryFailed,
    errors.InvalidArgument,
    errors.ServerFault,
]


@pytest.mark.parametrize("kind", LEAVES)
def test_an_error_survives_pickling(kind: type[SelatError]) -> None:
    error = kind("m", code="C", detail=Detail(line=1, column=2, found="f", hint="h", ids={"a": "b"}))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (again.message, again.code, again.detail, str(again)) == ("m", "C", error.detail, "m")


def test_codes_are_distinct() -> None:
    codes = [kind("m").code for kind in LEAVES]
    assert len(set(codes)) == len(codes)


def test_they_are_what_python_calls_them_too() -> None:
    assert issubclass(errors.TimedOut, TimeoutError)
    assert issubclass(errors.InvalidArgument, ValueError)
    assert issubclass(errors.ConnectionLost, errors.Unavailable)
