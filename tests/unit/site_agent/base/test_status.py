from __future__ import annotations

import inspect
import pickle

import grpc
import pytest

from site_agent.base import errors
from site_agent.base.errors import SiteAgentError, TrimmedEpochError
from site_agent.base.status import STATUS_CODES, detail_of, status_of

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, SiteAgentError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_of_its_own_choice(kind: type[SiteAgentError]) -> None:
    assert kind in STATUS_CODES
    error = pickle.loads(pickle.dumps(kind("m", hint="h", ids={"channel": "c"})))
    assert status_of(error) is STATUS_CODES[kind]
    detail = detail_of(error)
    assert (detail.code, detail.message, detail.hint, dict(detail.ids)) == (kind.code, "m", "h", {"channel": "c"})


def test_an_unlisted_error_has_its_ancestors_status() -> None:
    class SpecialError(TrimmedEpochError):
        pass

    assert status_of(SpecialError("x")) is grpc.StatusCode.OUT_OF_RANGE
