"""Random queries over tables on a real cluster, through the client: results equal DuckDB's over all rows.

`SELAT_RANDOM_BATCHES=50 SELAT_SEED=7 pytest -m "" tests/e2e/test_random_tables.py` looks further.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import selat
from benchmarks.tpch.answers import difference
from tests import seeds
from tests.e2e.cluster import running_cluster
from tests.e2e.dataset import SITES
from tests.grammar.tablequeries import query
from tests.grammar.tables import TABLES, declared, rows, to_arrow

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.seeded, pytest.mark.timeout(3600)]

BATCHES = int(os.environ.get("SELAT_RANDOM_BATCHES", "5"))
QUERIES_PER_BATCH = 10
FILES = 2
"""The files of each table at a site; one of them is a split."""
WITHOUT_ROWS = ("v", "eu")
"""No row of this table is at this site."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[selat.Client]:
    root = tmp_path_factory.mktemp("random_tables")
    with running_cluster(root / "cluster", heartbeat_timeout_s=60) as cluster, selat.connect(cluster.address) as client:
        list(client.script("SET key_filters = 'always'; SET split_size = 0.001"))
        yield client


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_queries_over_tables(client: selat.Client, tmp_path: Path, batch: int) -> None:
    """All queries of a batch run at once."""
    random = seeds.random_of(f"tables {batch}")
    db = duckdb.connect()
    for table in TABLES:
        written = [
            to_arrow(table, []) if (table, site) == WITHOUT_ROWS else rows(table, random)
            for site in SITES
            for _ in range(FILES)
        ]
        _declare(client, table, tmp_path, written)
        named = [site for site in SITES for _ in range(FILES)]
        parts = [
            part.append_column("site", pa.array([site] * len(part), pa.string()))
            for site, part in zip(named, written, strict=True)
        ]
        db.register(f"rows_of_{table}", pa.concat_tables(parts))
        db.execute(f"CREATE TABLE {table} AS SELECT * FROM rows_of_{table}")
    texts = [query(random) for _ in range(QUERIES_PER_BATCH)]

    submitted = [client.sql(text) for text in texts]

    for text, running in zip(texts, submitted, strict=True):
        assert isinstance(running, selat.Query)
        found = [tuple(row.values()) for row in running.results().arrow().to_pylist()]
        assert running.wait().state is selat.QueryState.FINISHED, text
        assert difference(found, db.execute(text).fetchall()) is None, text
    list(client.script("".join(f"DROP TABLE {table};" for table in TABLES)))


def _declare(client: selat.Client, table: str, root: Path, written: list[pa.Table]) -> None:
    for number, part in enumerate(written):
        path = root / SITES[number // FILES] / table / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(part, path)
    places = ", ".join(f"AT {site} WITH ('path' = '{root}/{site}/{table}')" for site in SITES)
    options = "'connector' = 'files', 'format' = 'parquet'"
    client.sql(f"CREATE TABLE {table} ({declared(table)}) WITH ({options}) {places}")
