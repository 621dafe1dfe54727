"""The number of parts of running merges changes: results equal DuckDB's, whatever dies meanwhile."""

from __future__ import annotations

import pytest

import selat
from selat.client.moves import MoveStep, TaskMove
from tests.e2e.cluster import check_against_oracle, submit, wait_until
from tests.e2e.faults import Queries, Scene, in_the_middle, kill
from tests.e2e.queries import CASES, Case

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(400)]

SLOWLY = "'mode' = 'replay', 'replay_speed' = '5'"
"""Five minutes of events in a minute: windows must close while the number of parts changes, and after that."""
NAMES = ("top_k", "top_k_over_aggregate")


def slow_cases(scene: Scene, client: selat.Client) -> tuple[Case, ...]:
    """Cases over a stream that takes a minute, whose merges are in two parts."""
    client.sql(scene.dataset.stream("IF NOT EXISTS slow_orders", SLOWLY))
    client.sql("SET merge_parallelism = 2")
    return tuple(
        Case(case.name, case.sql.replace("FROM orders", "FROM slow_orders"), case.oracle)
        for case in CASES
        if case.name in NAMES
    )


def merge_of(query: selat.Query) -> str:
    """The stage of the query that is a merge in parts."""
    return min(task.stage_id for task in query.info().tasks if task.stage_id.startswith("m"))


def over(client: selat.Client, move: TaskMove) -> TaskMove:
    wait_until(lambda: _now(client, move).step.over)
    return _now(client, move)


def _now(client: selat.Client, move: TaskMove) -> TaskMove:
    return next(m for m in client.moves(move.query_id) if m.stage == move.stage)


def parts(query: selat.Query) -> list[str]:
    """The sites of the query's parts."""
    stage = merge_of(query)
    return sorted(task.site for task in query.info().tasks if task.stage_id == stage)


def scale(client: selat.Client, queries: Queries, number: int, *sites: str) -> list[TaskMove]:
    begun = [client.scale_stage(query.id, merge_of(query), number, sites) for query in queries.values()]
    return [over(client, move) for move in begun]


def test_parts_are_split_and_joined_and_results_equal_the_oracle(frail: Scene, frail_client: selat.Client) -> None:
    cases = slow_cases(frail, frail_client)
    queries = submit(frail_client, cases[:1])
    in_the_middle(queries, rows_in=500)
    split = scale(frail_client, queries, 3, "eu", "asia", "us")
    assert {move.step for move in split} == {MoveStep.MOVED}, split
    # A site goes on to report an old part until all has been read that the old FINAL left behind.
    wait_until(lambda: {tuple(parts(query)) for query in queries.values()} == {("asia", "eu", "us")})
    joined = scale(frail_client, queries, 1)
    assert {move.step for move in joined} == {MoveStep.MOVED}, joined
    wait_until(lambda: all(len(parts(query)) == 1 for query in queries.values()))
    check_against_oracle(frail.dataset, cases[:1], queries)


@pytest.mark.long
@pytest.mark.parametrize("victims", [("agent-eu",), ("agent-us", "master"), ("agent-asia", "agent-eu")])
def test_kills_while_parts_change_lose_and_double_nothing(
    isolated: Scene, isolated_client: selat.Client, victims: tuple[str, ...]
) -> None:
    cases = slow_cases(isolated, isolated_client)
    queries = submit(isolated_client, cases)
    in_the_middle(queries, rows_in=500)
    begun = [isolated_client.scale_stage(query.id, merge_of(query), 4, ("us", "asia")) for query in queries.values()]
    kill(isolated.cluster, *victims)
    ended = [over(isolated_client, move) for move in begun]
    assert {move.step for move in ended} == {MoveStep.MOVED}, ended
    check_against_oracle(isolated.dataset, cases, queries)
