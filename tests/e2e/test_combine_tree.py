"""Combined groups of a site that go over another site: results equal DuckDB's, whatever dies there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import selat
from selat.client.moves import MoveStep, TaskMove
from tests.e2e.cluster import check_against_oracle, submit, wait_until
from tests.e2e.faults import Queries, Scene, in_the_middle, kill
from tests.e2e.queries import Case
from tests.e2e.test_combine import BATCH, combined_cases
from tests.e2e.test_handover import over

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

TREE = "SET combine = on; SET combine_tree = 'asia > eu'; "
BETWEEN = Case(
    "between",
    "SELECT window.start AS s, product, count(*) AS n, sum(quantity) AS total FROM orders WHERE site IN ('us', 'asia') "
    "GROUP BY window(ts, '10 seconds'), product",
    "SELECT w(ts, 10) AS s, product, count(*) AS n, sum(quantity) AS total FROM orders WHERE site IN ('us', 'asia') "
    "GROUP BY 1, 2",
)
"""At eu it combines what asia sends, and nothing else."""


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


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_results_equal_the_oracle(calm: Scene, over_eu: selat.Client, every: int) -> None:
    cases = trees(over_eu)
    assert len(cases) > 20
    cases = cases[::every]
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


def moved(client: selat.Client, queries: Queries, *sites: str) -> list[TaskMove]:
    """Have what eu combines go on at each of the sites in turn."""
    (query,) = queries.values()
    tasks = query.info().tasks
    (stage,) = {task.task_id.split(".", 1)[1] for task in tasks if task.site == "eu" and task.stage_id[0] == "c"}
    found = []
    for site in sites:
        if not query.state().over:
            found += over(client, [client.move_task(query.id, stage, site)])
    return found


def test_what_is_combined_between_goes_on_at_other_sites(frail: Scene, frail_client: selat.Client) -> None:
    list(frail_client.script(TREE))
    queries = submit(frail_client, (BETWEEN,))
    in_the_middle(queries, rows_in=500)
    moves = moved(frail_client, queries, "us", "asia", "eu")
    assert MoveStep.MOVED in {move.step for move in moves}
    check_against_oracle(frail.dataset, (BETWEEN,), queries)


def test_what_is_combined_between_leaves_a_site_that_is_drained(frail: Scene, frail_client: selat.Client) -> None:
    list(frail_client.script(TREE))
    queries = submit(frail_client, (BETWEEN,))
    in_the_middle(queries, rows_in=500)
    (query,) = queries.values()
    (place,) = [t.task_id for t in query.info().tasks if t.site == "eu" and t.stage_id[0] == "c"]
    left = frail_client.drain_site("eu")
    try:
        assert [work.movable for work in left.work if work.task_id == place] == [True]
        wait_until(lambda: query.state().over or _moved(frail_client, query, place))
        assert _moved(frail_client, query, place)
    finally:
        frail_client.undrain_site("eu")
    check_against_oracle(frail.dataset, (BETWEEN,), queries)


def _moved(client: selat.Client, query: selat.Query, place: str) -> bool:
    moves = {move.stage: move.step for move in client.moves(query.id)}
    return moves.get(place.split(".", 1)[1]) is MoveStep.MOVED


def test_what_combines_the_rows_of_a_source_stays(frail: Scene, frail_client: selat.Client) -> None:
    list(frail_client.script(TREE))
    (query,) = submit(frail_client, (BETWEEN,)).values()
    in_the_middle({BETWEEN.name: query}, rows_in=1)
    leaf = next(task for task in query.info().tasks if task.site == "asia" and task.stage_id[0] == "c")
    with pytest.raises(selat.StatementError, match="combines the rows of a source") as caught:
        frail_client.move_task(query.id, leaf.task_id.split(".", 1)[1], "eu")
    assert caught.value.code == "HANDOVER_REFUSED"
    query.cancel()


@pytest.mark.long
@pytest.mark.kills
@pytest.mark.parametrize("victims", [("agent-us",), ("agent-eu",), ("agent-asia",), ("master", "agent-eu")])
def test_kills_while_it_moves_lose_and_double_nothing(
    isolated: Scene, isolated_client: selat.Client, victims: tuple[str, ...]
) -> None:
    list(isolated_client.script(TREE))
    queries = submit(isolated_client, (BETWEEN,))
    in_the_middle(queries, rows_in=1000)
    (query,) = queries.values()
    (between,) = [task for task in query.info().tasks if task.site == "eu" and task.stage_id[0] == "c"]
    isolated_client.move_task(query.id, between.task_id.split(".", 1)[1], "us")
    kill(isolated.cluster, *victims)
    check_against_oracle(isolated.dataset, (BETWEEN,), queries)
