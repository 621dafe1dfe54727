"""Every feature of the SQL, end to end: what clients get equals DuckDB over the whole input."""

from __future__ import annotations

from pathlib import Path

import pytest

import selat
from tests.e2e.cluster import check_against_oracle, running_cluster, submit
from tests.e2e.dataset import write_dataset
from tests.e2e.queries import CASES, Case

BATCH = 16
"""Queries that run at once; more take longer than a test may on a small machine."""

BATCHES = tuple(CASES[start : start + BATCH] for start in range(0, len(CASES), BATCH))

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.mark.parametrize("cases", BATCHES, ids=lambda cases: cases[0].name)
def test_results_equal_the_oracle(tmp_path: Path, cases: tuple[Case, ...]) -> None:
    dataset = write_dataset(tmp_path / "input")
    with running_cluster(tmp_path / "cluster") as cluster, selat.connect(cluster.address) as client:
        list(client.script(dataset.ddl()))
        queries = submit(client, cases)

        check_against_oracle(dataset, cases, queries)
