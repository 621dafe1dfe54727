"""Queries whose merges run in parts, at several sites: results equal DuckDB's, also after kills."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import selat
from tests.e2e.cluster import check_against_oracle, submit
from tests.e2e.faults import Scene
from tests.e2e.queries import CASES, Case

BATCH = 12
PARTS = 4

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.fixture
def parted(calm: Scene) -> Iterator[selat.Client]:
    """A client whose queries merge in four parts."""
    with selat.connect(calm.cluster.address) as client:
        client.sql(f"SET merge_parallelism = {PARTS}")
        yield client


def parted_cases(client: selat.Client) -> tuple[Case, ...]:
    """Those with a merge in parts."""
    return tuple(case for case in CASES if sites_of_parts(client, case))


def sites_of_parts(client: selat.Client, case: Case) -> list[set[str]]:
    """Of each merge in parts, the sites."""
    plan = client.sql(f"EXPLAIN {case.sql}")
    assert isinstance(plan, selat.Explanation), case.name
    return [{p["site"] for p in stage["parts"]} for stage in json.loads(plan.json)["stages"] if stage["parts"]]


def test_results_equal_the_oracle(calm: Scene, parted: selat.Client) -> None:
    cases = parted_cases(parted)
    assert len(cases) > 20
    assert all(len(sites) > 1 for case in cases for sites in sites_of_parts(parted, case))
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        check_against_oracle(calm.dataset, batch, submit(parted, batch))
