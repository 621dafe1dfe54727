"""A query of a restored store goes on only where the sites have exactly its tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.failures.restored import unconfirmed

EXPECTED = {"q": {"us": {"q.s.us"}, "eu": {"q.s.eu", "q.m.eu"}}}
BOTH = {"us", "eu"}


def test_a_query_whose_tasks_are_all_there_goes_on() -> None:
    assert unconfirmed(EXPECTED, EXPECTED, BOTH) == {}


def test_a_query_that_has_ended_does_not() -> None:
    assert unconfirmed(EXPECTED, {}, BOTH) == {"q": "site eu does not run it any more"}


def test_a_query_with_other_tasks_does_not() -> None:
    more = {"q": {**EXPECTED["q"], "us": {"q.s.us", "q.derived.us"}}}
    assert unconfirmed(EXPECTED, more, BOTH) == {"q": "site us runs other tasks of it than the backup says"}
    elsewhere = {"q": {**EXPECTED["q"], "asia": {"q.map-3.asia"}}}
    assert "site asia runs other tasks" in unconfirmed(EXPECTED, elsewhere, {*BOTH, "asia"})["q"]


def test_the_sites_that_were_heard_decide() -> None:
    half = {"q": {"us": {"q.s.us"}}}
    assert unconfirmed(EXPECTED, half, {"us"}) == {}
    assert "none of its sites was heard" in unconfirmed(EXPECTED, half, {"asia"})["q"]


def test_queries_that_the_store_does_not_know_are_not_told() -> None:
    assert unconfirmed({}, EXPECTED, BOTH) == {}


SITES = st.sampled_from(["us", "eu", "asia"])
TASKS = st.dictionaries(
    st.sampled_from(["p", "q"]), st.dictionaries(SITES, st.sets(st.sampled_from("abc"), min_size=1))
)


@given(expected=TASKS, reported=TASKS, heard=st.sets(SITES))
def test_what_goes_on_runs_at_every_heard_site_as_the_store_says(
    expected: dict[str, dict[str, set[str]]], reported: dict[str, dict[str, set[str]]], heard: set[str]
) -> None:
    lost = unconfirmed(expected, reported, heard)
    assert lost.keys() <= expected.keys()
    for query in expected.keys() - lost.keys():
        assert heard & expected[query].keys()
        for site in heard:
            assert reported.get(query, {}).get(site, set()) == expected[query].get(site, set())
