"""Every feature of the SQL, end to end: what clients get equals DuckDB over the whole input."""

from __future__ import annotations

import pytest

import selat
from tests.e2e.cluster import check_against_oracle, submit
from tests.e2e.faults import Scene
from tests.e2e.queries import CASES, Case

BATCH = 16
"""Queries that run at once; more take longer than a test may on a small machine."""

BATCHES = tuple(CASES[start : start + BATCH] for start in range(0, len(CASES), BATCH))

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.mark.parametrize("cases", BATCHES, ids=lambda cases: cases[0].name)
def test_results_equal_the_oracle(calm: Scene, calm_client: selat.Client, cases: tuple[Case, ...]) -> None:
    queries = submit(calm_client, cases)

    check_against_oracle(calm.dataset, cases, queries)
