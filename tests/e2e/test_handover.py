"""Tasks of running queries move from site to site: results equal DuckDB's, whatever dies meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

import selat
from selat.client.moves import MoveStep, TaskMove
from site_agent.channels.recovery import END_FILE
from tests.e2e.cluster import GATEWAY, check_against_oracle, submit, wait_until
from tests.e2e.dataset import SITES
from tests.e2e.faults import Queries, Scene, epoch_files, in_the_middle, kill, stopped
from tests.e2e.queries import CASES

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(400)]

NAMES = ("all_aggregates", "top_k", "window_left_join", "window_join_aggregate")
CHOSEN = tuple(case for case in CASES if case.name in NAMES)


def movable(queries: Queries) -> Mapping[tuple[str, str], str]:
    """The tasks of the queries that can be moved, by query and stage, with their sites."""
    found = {}
    for query in queries.values():
        for task in query.info().tasks:
            if task.stage_id[0] in "mf" and task.query_id == query.id:
                found[query.id, task.task_id.split(".", 1)[1]] = task.site
    return found


def move_all(client: selat.Client, queries: Queries, *, without_state: bool = False) -> list[TaskMove]:
    """Have every task move that can, to the next site; those beside one that moves are left where they are."""
    begun = []
    for (query, stage), site in movable(queries).items():
        to_site = SITES[(SITES.index(site) + 1) % len(SITES)]
        try:
            begun.append(client.move_task(query, stage, to_site, without_state=without_state))
        except selat.StatementError as error:
            if error.code != "HANDOVER_REFUSED":
                raise
    return begun


def over(client: selat.Client, begun: Iterable[TaskMove]) -> list[TaskMove]:
    """The moves once they are over, or their queries are."""
    ended: list[TaskMove] = []
    for move in begun:
        wait_until(lambda move=move: _now(client, move).step.over or client.query(move.query_id).state().over)
        ended.append(_now(client, move))
    return ended


def _now(client: selat.Client, move: TaskMove) -> TaskMove:
    return next(m for m in client.moves(move.query_id) if m.stage == move.stage)


def test_tasks_move_twice_and_results_equal_the_oracle(frail: Scene, frail_client: selat.Client) -> None:
    queries = submit(frail_client, CHOSEN)
    in_the_middle(queries, rows_in=500)
    moves = over(frail_client, move_all(frail_client, queries))
    moves += over(frail_client, move_all(frail_client, {n: q for n, q in queries.items() if not q.state().over}))
    # One whose inputs end before it hands over stays.
    assert MoveStep.MOVED in {move.step for move in moves}
    check_against_oracle(frail.dataset, CHOSEN, queries)


def test_tasks_move_without_their_state_and_results_equal_the_oracle(frail: Scene, frail_client: selat.Client) -> None:
    queries = submit(frail_client, CHOSEN)
    in_the_middle(queries, rows_in=500)
    moves = over(frail_client, move_all(frail_client, queries, without_state=True))
    assert MoveStep.MOVED in {move.step for move in moves}
    check_against_oracle(frail.dataset, CHOSEN, queries)


def test_results_go_on_while_the_master_is_away_after_the_cut(frail: Scene, frail_client: selat.Client) -> None:
    queries = submit(frail_client, CHOSEN[:1])
    in_the_middle(queries, rows_in=500)
    ((query, stage), site) = next(iter(movable(queries).items()))
    to_site = SITES[(SITES.index(site) + 1) % len(SITES)]
    frail_client.move_task(query, stage, to_site)
    end = frail.cluster.data.root / "sites" / site / "channels" / f"{query}.{stage}" / END_FILE
    wait_until(end.exists)
    with stopped(frail.cluster, "master"):
        wait_until(lambda: len(epoch_files(frail.cluster, GATEWAY, f"{query}.{stage}.g1")) >= 2)
    check_against_oracle(frail.dataset, CHOSEN[:1], queries)


@pytest.mark.long
@pytest.mark.kills
@pytest.mark.parametrize(
    "victims", [("agent-us",), ("agent-eu",), ("agent-asia",), ("master",), ("agent-us", "master")]
)
def test_kills_during_moves_lose_and_double_nothing(
    isolated: Scene, isolated_client: selat.Client, victims: tuple[str, ...]
) -> None:
    queries = submit(isolated_client, CHOSEN[:3])
    in_the_middle(queries, rows_in=1000)
    move_all(isolated_client, queries)
    kill(isolated.cluster, *victims)
    check_against_oracle(isolated.dataset, CHOSEN[:3], queries)
