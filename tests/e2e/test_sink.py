"""INSERT INTO and followed results, with agents and clients killed: what is there in the end equals DuckDB's answer."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import duckdb
import pytest

import selat
from selat.dev.processes import AGENTS
from tests.e2e import oracle
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene, in_the_middle
from tests.e2e.oracle import assert_same, assert_same_rows, expected
from tests.e2e.queries import CASES, Case
from tests.e2e.sinks import files, half_written, insert, written

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(600)]

CASE = {case.name: case for case in CASES}
PROJECTION, AGGREGATE = CASE["projection"], CASE["all_aggregates"]

KILLS = 2
"""Of an agent with its JVM; tests/integration/test_sink_kills.py kills a sink alone, more often."""


@pytest.fixture
def scene(frail: Scene) -> Scene:
    return frail


@pytest.fixture
def client(frail_client: selat.Client) -> selat.Client:
    return frail_client


@pytest.fixture
def db(scene: Scene) -> duckdb.DuckDBPyConnection:
    return oracle.connect(scene.dataset)


def declare(client: selat.Client, name: str, path: Path, options: str = "", columns: str = "") -> None:
    client.sql(
        f"CREATE SINK {name} {columns} AT eu "
        f"WITH ('connector' = 'parquet', 'path' = '{path}', 'roll_interval' = '500 ms'{options})"
    )


def finish(query: selat.Query) -> selat.QueryInfo:
    info = query.wait()
    assert info.state is selat.QueryState.FINISHED, info.reason
    return info


@pytest.mark.long
def test_kills_of_the_sinks_agent_lose_and_double_nothing(
    scene: Scene, client: selat.Client, db: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    cases: dict[str, Case] = {"rows": PROJECTION, "windows": AGGREGATE}
    queries = {}
    for name, case in cases.items():
        declare(client, name, tmp_path / name)
        queries[name] = insert(client, name, case.sql)
    in_the_middle(queries, rows_in=600)
    for kill in range(KILLS):
        before = len(files(tmp_path))
        # Right behind a rename: the commit is there, and neither recorded nor acknowledged, or only just.
        wait_until(lambda before=before: len(files(tmp_path)) > before, timeout_s=180)
        time.sleep(0.01 * kill)
        pid = scene.cluster.pids[AGENTS]
        os.kill(pid, signal.SIGKILL)
        ids = [row[0] for row in written(db, tmp_path / "rows", "id")]
        assert len(ids) == len(set(ids))
        scene.cluster.await_ready(AGENTS, not_pid=pid)

    for name, case in cases.items():
        info = finish(queries[name])
        rows = written(db, tmp_path / name)
        assert_same(rows, expected(db, case.oracle), name)
        assert info.rows_out == len(rows)
        assert half_written(tmp_path / name) == []


def test_two_queries_partitioned_into_declared_columns(
    client: selat.Client, db: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    declare(
        client, "sales", tmp_path / "out", ", 'partition_by' = 'region'", "(number STRING, region STRING, price FLOAT)"
    )
    select = "SELECT id, site, price FROM paged WHERE quantity = 8 AND site"
    queries = [insert(client, "sales", f"{select} = 'us'"), insert(client, "sales", f"{select} <> 'us'")]
    for query in queries:
        finish(query)
    assert sorted({path.parent.name for path in files(tmp_path)}) == ["region=asia", "region=eu", "region=us"]
    rows = expected(
        db, f"SELECT number, region, price FROM read_parquet('{tmp_path}/out/**/*.parquet', hive_partitioning = true)"
    )
    columns = "CAST(id AS VARCHAR) AS number, site AS region, CAST(price AS FLOAT) AS price"
    wanted = f"SELECT {columns} FROM orders WHERE quantity = 8"
    assert_same(rows, expected(db, wanted), "sales")


def test_a_directory_that_cannot_be_written_is_waited_for(
    client: selat.Client, db: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    path = tmp_path / "taken"
    path.write_text("a file")
    declare(client, "taken", path)
    query = insert(client, "taken", "SELECT id, product FROM paged")

    def sink() -> selat.TaskStatus:
        return next(task for task in query.info().tasks if task.stage_id == "sink")

    wait_until(lambda: sink().state is selat.TaskState.RETRYING)
    assert str(path) in sink().reason
    path.unlink()
    finish(query)
    assert_same(written(db, path), expected(db, "SELECT id, product FROM orders"), "taken")


def test_a_cancelled_insert_leaves_what_is_committed(
    client: selat.Client, db: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "foreign.txt").write_text("not ours")
    declare(client, "stopped", out)
    query = insert(client, "stopped", PROJECTION.sql)
    wait_until(lambda: len(files(out)) >= 2)
    with pytest.raises(selat.StatementError, match="written by"):
        client.drop("stopped")
    query.cancel()
    query.wait()
    there = files(out)
    rows = written(db, out)
    assert query.info().rows_out <= len(rows)
    assert set(rows) < set(expected(db, PROJECTION.oracle))
    assert half_written(out) == []
    assert files(out) == there
    assert (out / "foreign.txt").read_text() == "not ours"
    assert client.drop("stopped")


def test_the_command_follows_an_insert(scene: Scene, client: selat.Client, tmp_path: Path) -> None:
    declare(client, "told", tmp_path / "out")
    text = "INSERT INTO told SELECT id FROM paged WHERE quantity = 8 AND site = 'asia'"
    done = selat_command(scene, "sql", "-o", "json", text)
    assert done.returncode == 0, done.stderr
    query = json.loads(done.stdout)["query"]
    info = client.query(query).info()
    assert (info.state, info.sink, info.sink_site) == (selat.QueryState.FINISHED, "told", "eu")
    shown = selat_command(scene, "query", "show", query, "-o", "table").stdout
    assert f"rows written  {info.rows_out:,}" in shown
    assert "writes to     sink told at eu" in shown
    refused = selat_command(scene, "query", "results", query)
    assert refused.returncode == 3
    assert "error[NO_RESULTS]" in refused.stderr


def test_a_follower_that_is_killed_goes_on_from_its_cursor(
    scene: Scene, client: selat.Client, db: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    query = client.sql("SELECT id, site FROM paged")
    assert isinstance(query, selat.Query)
    path = tmp_path / "rows.sqlite"
    command = [sys.executable, "-m", "tests.e2e.follower", scene.cluster.address, query.id, str(path)]
    for _ in range(3):
        kill_when_it_grows(command, lambda: len(stored(path)))
    subprocess.run(command, check=True, timeout=180)
    rows = [(row["id"], row["site"]) for row in map(json.loads, stored(path))]
    assert_same_rows(rows, expected(db, "SELECT id, site FROM orders"), "followed")


def test_a_command_that_is_killed_goes_on_from_its_cursor_file(
    scene: Scene, client: selat.Client, db: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    query = client.sql("SELECT id FROM paged WHERE quantity > 4")
    assert isinstance(query, selat.Query)
    out, place = tmp_path / "rows.jsonl", tmp_path / "place"
    command = [sys.executable, "-m", "selat", "--master", scene.cluster.address, "-o", "json"]
    command += ["query", "results", query.id, "--cursor-file", str(place)]
    with out.open("ab") as file:
        for _ in range(3):
            kill_when_it_grows(command, lambda: out.stat().st_size, stdout=file)
        subprocess.run(command, stdout=file, check=True, timeout=180)
    ids = {json.loads(line)["id"] for line in out.read_text().splitlines()}
    # At most the batch that was printed and not noted is there again; nothing is missing.
    assert ids == {row[0] for row in expected(db, "SELECT id FROM orders WHERE quantity > 4")}


def kill_when_it_grows(command: list[str], size: Callable[[], int], stdout: IO[bytes] | None = None) -> None:
    """Run the command and kill it as soon as its output has grown, if it has not ended by itself."""
    before = size()
    process = subprocess.Popen(command, stdout=stdout)
    wait_until(lambda: size() > before or process.poll() is not None, timeout_s=180)
    process.kill()
    process.wait()


def selat_command(scene: Scene, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "selat", "--master", scene.cluster.address, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def stored(path: Path) -> list[str]:
    if not path.exists():
        return []
    with sqlite3.connect(path) as db:
        known = db.execute("SELECT name FROM sqlite_master WHERE name = 'rows'").fetchall()
        return [row for (row,) in db.execute("SELECT row FROM rows")] if known else []
