"""Combined groups of a site that go over another site: results equal DuckDB's, whatever dies there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import selat
from tests.e2e.cluster import check_against_oracle, submit
from tests.e2e.faults import Scene, in_the_middle, kill
from tests.e2e.queries import Case
from tests.e2e.test_combine import BATCH, combined_cases

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

TREE = "SET combine = on; SET combine_tree = 'asia > eu'; "


@pytest.fixture
def over_eu(calm: Scene) -> Iterator[selat.Client]:
    """A client whose queries combine what asia sends at eu."""
    with selat.connect(calm.cluster.address) as client:
        list(client.script(TREE))
        yield client


def trees(client: selat.Client) -> tuple[Case, ...]:
    """Cases in which eu combines what asia sends."""
    found = []
    for case in combined_cases(client):
        plan = client.sql(f"EXPLAIN {case.sql}")
        assert isinstance(plan, selat.Explanation), case.name
        stages = json.loads(plan.json)["stages"]
        if any(s["kind"] == "combine" and any(not i["same_site"] for i in s["inputs"]) for s in stages):
            found.append(case)
    return tuple(found)


def test_results_equal_the_oracle(calm: Scene, over_eu: selat.Client) -> None:
    cases = trees(over_eu)
    assert len(cases) > 20
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        check_against_oracle(calm.dataset, batch, submit(over_eu, batch))


@pytest.mark.long
@pytest.mark.kills
def test_results_equal_the_oracle_after_kills(isolated: Scene, isolated_client: selat.Client) -> None:
    """Of the site between, of the one that sends over it, of the merge's; one query reads what the other's combine."""
    list(isolated_client.script(TREE + "SET sharing = 'sana'"))
    cases = trees(isolated_client)[:3]
    queries = submit(isolated_client, cases)
    again = submit(isolated_client, cases[:1])
    own = {task.task_id for query in again.values() for task in query.info().tasks if task.query_id == query.id}
    assert not any(".c" in task for task in own)
    in_the_middle(queries, rows_in=1000)
    kill(isolated.cluster, "agent-eu", "agent-asia")
    in_the_middle(queries, rows_in=2500)
    kill(isolated.cluster, "master", "agent-eu", "agent-us")
    check_against_oracle(isolated.dataset, cases, queries)
    check_against_oracle(isolated.dataset, cases[:1], again)
