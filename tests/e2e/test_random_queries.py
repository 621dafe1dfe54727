"""Random queries from a grammar, on a real cluster: what clients get equals DuckDB over the whole input.

`SELAT_RANDOM_BATCHES=50 SELAT_SEED=7 pytest tests/e2e/test_random_queries.py` looks further.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import selat
from tests.e2e.cluster import check_against_oracle, submit
from tests.e2e.faults import Scene
from tests.e2e.queries import Case
from tests.grammar.queries import queries
from tests.grammar.text import Both

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(3600)]

BATCHES = int(os.environ.get("SELAT_RANDOM_BATCHES", "0"))
QUERIES_PER_BATCH = 8


@settings(
    max_examples=BATCHES or 2,
    # Shrinking would run hundreds of queries; a failure names its query.
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(
    batch=st.lists(queries(), min_size=QUERIES_PER_BATCH, max_size=QUERIES_PER_BATCH),
    parts=st.sampled_from([1, 3]),
)
def test_random_queries_equal_the_oracle(calm: Scene, calm_client: selat.Client, batch: list[Both], parts: int) -> None:
    cases = tuple(Case(f"{query.selat}\n-- oracle\n{query.oracle}\n", query.selat, query.oracle) for query in batch)
    note(f"{len(cases)} queries, merges in {parts} parts")
    calm_client.sql(f"SET merge_parallelism = {parts}")

    submitted = submit(calm_client, cases)

    check_against_oracle(calm.dataset, cases, submitted)
