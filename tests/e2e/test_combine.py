"""Queries whose sites combine their partials: results equal DuckDB's, each group of a window leaves its site once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import selat
from tests.e2e.cluster import check_against_oracle, submit
from tests.e2e.faults import Scene, in_the_middle, kill
from tests.e2e.queries import CASES, Case

BATCH = 16

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.fixture
def combining(calm: Scene) -> Iterator[selat.Client]:
    """A client whose queries combine."""
    with selat.connect(calm.cluster.address) as client:
        client.sql("SET combine = on")
        yield client


def combined_cases(client: selat.Client) -> tuple[Case, ...]:
    """Those with a COMBINE."""
    found = []
    for case in CASES:
        plan = client.sql(f"EXPLAIN {case.sql}")
        assert isinstance(plan, selat.Explanation), case.name
        stages = json.loads(plan.json)["stages"]
        if any(stage["kind"] == "combine" for stage in stages):
            found.append(case)
    return tuple(found)


def test_results_equal_the_oracle(calm: Scene, combining: selat.Client) -> None:
    cases = combined_cases(combining)
    assert len(cases) > 20
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        check_against_oracle(calm.dataset, batch, submit(combining, batch))


@pytest.mark.long
@pytest.mark.kills
def test_results_equal_the_oracle_after_kills(isolated: Scene, isolated_client: selat.Client) -> None:
    """Of sites that hold partials, and of the merge's; one query reads what the other's sites combine."""
    list(isolated_client.script("SET combine = on; SET sharing = 'sana'"))
    cases = combined_cases(isolated_client)[:3]
    queries = submit(isolated_client, cases)
    again = submit(isolated_client, cases[:1])
    own = {task.task_id for query in again.values() for task in query.info().tasks if task.query_id == query.id}
    assert not any(".c1." in task for task in own)
    in_the_middle(queries, rows_in=1500)
    kill(isolated.cluster, "agent-asia")
    in_the_middle(queries, rows_in=3000)
    kill(isolated.cluster, "master", "agent-us", "agent-eu")
    check_against_oracle(isolated.dataset, cases, queries)
    check_against_oracle(isolated.dataset, cases[:1], again)
