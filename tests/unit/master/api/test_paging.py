"""Queries that a list has, by filter and page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from master.api.paging import Wanted, page
from master.base.errors import InvalidRequestError
from master.records.model import QueryState
from tests.unit.master.build import query

RUNNING = replace(query("q-0001-00000a", state=QueryState.RUNNING), name="Visits", sql="SELECT page FROM clicks")
FAILED = query("q-0002-00000a", state=QueryState.FAILED)
PAUSED = query("q-0010-00000a", state=QueryState.PAUSED)
ALL = (RUNNING, FAILED, PAUSED)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(), (RUNNING, PAUSED)),
        (Wanted(ended=True), ALL),
        (Wanted(states=frozenset({QueryState.FAILED})), (FAILED,)),
        (Wanted(text="visits"), (RUNNING,)),
        (Wanted(text="CLICKS"), (RUNNING,)),
        (Wanted(ended=True, text="q-0002"), (FAILED,)),
        (Wanted(text="nothing"), ()),
    ],
)
def test_filters(wanted: Wanted, found: tuple[object, ...]) -> None:
    assert tuple(filter(wanted.has, ALL)) == found


def test_pages_follow_one_another_also_when_queries_were_forgotten_meanwhile() -> None:
    first, token = page(ALL, 2, "")
    assert (list(first), token) == ([RUNNING, FAILED], FAILED.id)
    assert page((RUNNING, PAUSED), 2, token) == ([PAUSED], "")
    assert page(ALL, 0, "") == (list(ALL), "")


def test_a_token_that_was_not_given_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="page_token"):
        page(ALL, 1, "visits")
