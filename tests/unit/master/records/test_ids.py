"""Names, ids, and finding queries."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from master.base.errors import AmbiguousQueryError, InvalidRequestError, UnknownQueryError
from master.records.ids import check_query_name, find_query, query_id
from master.records.model import QueryState
from tests.unit.master.build import START, query

FIRST = query("q-0001-aaaaaa", name="top")
SECOND = query("q-0002-bbbbbb", name="late")
TENTH = query("q-0010-cccccc")
ALL = (FIRST, SECOND, TENTH)


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("q-0001-aaaaaa", FIRST),
        ("q-0002", SECOND),
        ("q-001", TENTH),
        ("top", FIRST),
    ],
)
def test_by_id_prefix_or_name(reference: str, found: object) -> None:
    assert find_query(ALL, reference) is found


def test_a_live_query_goes_before_one_of_the_same_name_that_is_over_and_the_newest_before_older() -> None:
    over = replace(query("q-0003-dddddd", name="top", state=QueryState.FINISHED), submitted_at=START + timedelta(1))
    newer = replace(over, id="q-0004-eeeeee", submitted_at=START + timedelta(2))
    assert find_query((*ALL, over, newer), "top") is FIRST
    assert find_query((over, newer), "top") is newer


def test_an_ambiguous_prefix_names_the_candidates() -> None:
    with pytest.raises(AmbiguousQueryError) as caught:
        find_query(ALL, "q-00")
    assert caught.value.hint == "give more of the id: q-0001-aaaaaa, q-0002-bbbbbb, q-0010-cccccc"


@pytest.mark.parametrize(("reference", "hint"), [("tpo", "did you mean top?"), ("zzz", "SHOW QUERIES lists them")])
def test_an_unknown_query_comes_with_what_may_have_been_meant(reference: str, hint: str) -> None:
    with pytest.raises(UnknownQueryError) as caught:
        find_query(ALL, reference)
    assert caught.value.hint == hint


def test_the_empty_reference_is_no_prefix() -> None:
    with pytest.raises(UnknownQueryError):
        find_query(ALL, "")


@pytest.mark.parametrize("name", ["", "1st", "a b", "q-0001", "q-0001-abc", "x" * 64, "naïve"])
def test_what_cannot_be_a_name(name: str) -> None:
    with pytest.raises(InvalidRequestError):
        check_query_name(name)


@pytest.mark.parametrize("name", ["top", "Delay_per-carrier9", "q", "q-x"])
def test_what_can_be_a_name(name: str) -> None:
    check_query_name(name)


def test_ids_have_four_digits_or_more() -> None:
    assert query_id(7, lambda n: "f" * n) == "q-0007-ffffff"
    assert query_id(12345, lambda n: "0" * n) == "q-12345-000000"
