"""Which ended queries may be forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from master.queries.retention import EndedRetention, purgeable
from master.records.model import QueryRecord, QueryState
from tests.unit.master.build import START, query

AGES = st.lists(st.none() | st.integers(0, 100), max_size=12)


def queries(ages_s: list[int | None]) -> list[QueryRecord]:
    """One query per age; None: it runs."""
    return [
        replace(query(f"q-{n:04d}-000000"), state=QueryState.FINISHED, ended_at=START - timedelta(seconds=age_s))
        if age_s is not None
        else query(f"q-{n:04d}-000000", state=QueryState.RUNNING)
        for n, age_s in enumerate(ages_s, start=1)
    ]


@given(AGES, st.integers(1, 120), st.integers(0, 12))
def test_what_stays_is_young_and_not_too_many_and_nothing_else_goes(
    ages_s: list[int | None], limit_s: int, count: int
) -> None:
    known = queries(ages_s)
    doomed = set(purgeable(known, now=START, retention=EndedRetention(timedelta(seconds=limit_s), count)))
    kept = [age for q, age in zip(known, ages_s, strict=True) if q.id not in doomed and age is not None]
    gone = [age for q, age in zip(known, ages_s, strict=True) if q.id in doomed]

    assert all(age is not None for age in gone), "a running query was purged"
    assert len(kept) <= count
    assert all(age < limit_s for age in kept)
    young = [age for age in ages_s if age is not None and age < limit_s]
    assert len(kept) == min(count, len(young))
    assert max(kept, default=0) <= min((age for age in gone if age is not None), default=1000)
