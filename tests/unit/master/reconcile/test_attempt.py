"""Actions on a store that fails for a while."""

from __future__ import annotations

import logging

import pytest

from master.base.errors import StoreError
from master.reconcile.attempt import Attempt


def fail() -> str:
    raise StoreError("the disk is full")


def test_of_failures_in_a_row_the_first_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    attempt = Attempt("nothing stored yet")
    with caplog.at_level(logging.ERROR):
        assert [attempt.run(fail, otherwise="later") for _ in range(2)] == ["later", "later"]
        assert attempt.failed
        assert attempt.run(lambda: "stored", otherwise="later") == "stored"
        assert not attempt.failed
        assert len(caplog.records) == 1
        attempt.run(fail, otherwise="later")
    assert [record.message.startswith("nothing stored yet") for record in caplog.records] == [True, True]
