"""Queries whose merges run in parts, at several sites: results equal DuckDB's, also after kills."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import selat
from tests.e2e.cluster import check_against_oracle, submit, wait_until
from tests.e2e.faults import Scene, in_the_middle, kill
from tests.e2e.oracle import assert_same, connect, expected
from tests.e2e.queries import CASES, Case
from tests.e2e.sinks import insert, written

BATCH = 12
PARTS = 4
SOME = ("having", "top_k", "window_join_aggregate", "join_of_windowed_aggregates")

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


def named(*names: str) -> tuple[Case, ...]:
    return tuple(case for case in CASES if case.name in names)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_results_equal_the_oracle(calm: Scene, parted: selat.Client, every: int) -> None:
    cases = parted_cases(parted)
    assert len(cases) > 20
    assert all(len(sites) > 1 for case in cases for sites in sites_of_parts(parted, case))
    cases = cases[::every]
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        check_against_oracle(calm.dataset, batch, submit(parted, batch))


def test_parts_of_combined_partials_and_shared_parts_equal_the_oracle(calm: Scene, parted: selat.Client) -> None:
    """The second time all is shared, the third time with other parts: only the sources are."""
    list(parted.script("SET combine = on; SET sharing = 'sana'"))
    cases = named(*SOME)
    first, again = submit(parted, cases), submit(parted, cases)
    parted.sql("SET merge_parallelism = 3")
    other = submit(parted, cases)
    assert not [t.task_id for query in again.values() for t in query.info().tasks if t.query_id == query.id]
    for queries in (first, again, other):
        check_against_oracle(calm.dataset, cases, queries)


def test_a_sink_takes_the_rows_of_all_parts(calm: Scene, parted: selat.Client, tmp_path: Path) -> None:
    db = connect(calm.dataset)
    for case in named("having", "top_k"):
        directory = tmp_path / case.name
        parted.sql(f"CREATE SINK of_{case.name} AT eu WITH ('connector' = 'parquet', 'path' = '{directory}')")
        query = insert(parted, f"of_{case.name}", case.sql)
        wait_until(lambda query=query: query.state() is selat.QueryState.FINISHED)
        assert_same(written(db, directory), expected(db, case.oracle), case.name)
        parted.sql(f"DROP SINK of_{case.name}")


def test_parts_do_not_begin_in_the_middle(parted: selat.Client) -> None:
    parted.sql("SET sharing_start = 'next-window'")
    with pytest.raises(selat.SelatError, match="merge_parallelism = 4 does not go together"):
        parted.sql(named(*SOME)[0].sql)


@pytest.mark.kills
def test_results_equal_the_oracle_after_kills(isolated: Scene, isolated_client: selat.Client) -> None:
    isolated_client.sql(f"SET merge_parallelism = {PARTS}")
    cases = named(*SOME)
    queries = submit(isolated_client, cases)
    in_the_middle(queries, rows_in=1500)
    kill(isolated.cluster, "agent-eu")
    paused = queries["top_k"]
    paused.pause()
    wait_until(lambda: paused.state() is selat.QueryState.PAUSED)
    paused.resume()
    wait_until(lambda: paused.state() is selat.QueryState.RUNNING)
    in_the_middle(queries, rows_in=3000)
    kill(isolated.cluster, "master", "agent-us", "agent-asia")
    check_against_oracle(isolated.dataset, cases, queries)
