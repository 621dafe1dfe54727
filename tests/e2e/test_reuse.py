"""Queries over tables that take rows again which other queries had made or sent: results are those without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import duckdb
import pytest

import selat

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]

SITES = ("us", "eu", "asia")
ROWS = 10_000
WHOLE = "SELECT k, s FROM notes EXCEPT SELECT 5, 'none'"
IN_PARTS = "SELECT k, s FROM notes WHERE k > 3"


def write(directory: Path, name: str, rows: int) -> None:
    random = Random(name)
    directory.mkdir(exist_ok=True)
    lines = (f"{random.randrange(10)},{random.randbytes(12).hex()}\n" for _ in range(rows))
    (directory / f"{name}.csv").write_text("".join(lines))


@pytest.fixture
def client(calm_client: selat.Client, tmp_path: Path) -> Iterator[selat.Client]:
    for site in SITES:
        write(tmp_path / site, f"{site}-first", ROWS)
    at = ", ".join(f"AT {site} WITH ('path' = '{tmp_path}/{site}')" for site in SITES)
    declared = f"CREATE TABLE notes (k BIGINT, s STRING) WITH ('connector' = 'files', 'format' = 'csv') {at};"
    list(calm_client.script(f"{declared} SET batch_scheduler = 'local'; SET split_size = 64; SET sharing = 'sana'"))
    yield calm_client
    list(calm_client.script("DROP TABLE notes"))


def wanted(directory: Path, sql: str) -> list[tuple[object, ...]]:
    db = duckdb.connect()
    read = f"read_csv('{directory}/*/*.csv', columns = {{'k': 'BIGINT', 's': 'VARCHAR'}})"
    db.execute(f"CREATE TABLE notes AS SELECT * FROM {read}")
    return sorted(db.execute(sql).fetchall())


def finished(query: object) -> tuple[list[tuple[object, ...]], int]:
    """The rows, and the bytes that links carried for them."""
    assert isinstance(query, selat.Query)
    rows = sorted(tuple(row.values()) for row in query.results().arrow().to_pylist())
    info = query.wait()
    assert info.state is selat.QueryState.FINISHED, info.reason
    return rows, info.link_bytes


@pytest.mark.parametrize("sql", [WHOLE, IN_PARTS])
def test_what_a_query_had_sent_is_not_sent_again_while_the_table_is_unchanged(
    client: selat.Client, tmp_path: Path, sql: str
) -> None:
    expected = wanted(tmp_path, sql)
    (first, first_bytes), (second, second_bytes) = (finished(client.sql(sql)) for _ in range(2))
    assert first == second == expected
    assert first_bytes > 100_000
    assert second_bytes < first_bytes / 10

    write(tmp_path / "eu", "eu-second", ROWS)
    changed, changed_bytes = finished(client.sql(sql))
    assert changed == wanted(tmp_path, sql) != expected
    assert first_bytes / 10 < changed_bytes < first_bytes * 2

    list(client.script("SET sharing = 'net'"))
    alone, alone_bytes = finished(client.sql(sql))
    assert alone == changed
    assert alone_bytes > first_bytes


def test_queries_that_run_at_the_same_time_read_once(client: selat.Client, tmp_path: Path) -> None:
    queries = [client.sql(sql) for sql in (WHOLE, IN_PARTS, WHOLE, IN_PARTS, WHOLE)]
    results = [finished(query)[0] for query in queries]
    assert results[0] == results[2] == results[4] == wanted(tmp_path, WHOLE)
    assert results[1] == results[3] == wanted(tmp_path, IN_PARTS)


def test_explain_says_so(client: selat.Client) -> None:
    query = client.sql(WHOLE)
    assert isinstance(query, selat.Query)
    assert "rows of other queries are taken again" in query.explain().text
    finished(query)
