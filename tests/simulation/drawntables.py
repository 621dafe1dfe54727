"""Tables with rows by seed, and random queries over them: all that is of one seed is known by the queries' names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from random import Random

import duckdb
import pyarrow as pa

from tests.grammar import tablequeries, tables
from tests.grammar.tables import TABLES

_PREFIX = "drawn"


def name(seed: int, number: int) -> str:
    """The name of a query over the tables of a seed."""
    return f"{_PREFIX}_{seed}_{number}"


def is_drawn(query: str) -> bool:
    """Return whether a query has such a name."""
    return query.startswith(f"{_PREFIX}_")


def seed_of(query: str) -> int:
    """The seed of the tables that a query reads."""
    return int(query.split("_")[1])


@cache
def text(query: str) -> str:
    """The query's SQL, for Spark and DuckDB."""
    return tablequeries.query(Random(query))


@cache
def rows(seed: int, table: str, site: str) -> pa.Table:
    """The rows of a table at a site; some sites have none of any."""
    if Random(f"{seed}/empty/{site}").random() < 0.1:
        return tables.to_arrow(table, [])
    return tables.rows(table, Random(f"{seed}/{table}/{site}"))


def splits(seed: int, table: str, site: str) -> list[range]:
    """The numbers of the rows of each split."""
    count = rows(seed, table, site).num_rows
    most = min(count, Random(f"{seed}/{table}/{site}/splits").choice((1, 2, 3)))
    return [range(count * number // most, count * (number + 1) // most) for number in range(most)]


def declarations(seed: int, sites: Iterable[str]) -> tuple[str, ...]:
    """The statements that declare the tables."""
    everywhere = ", ".join(f"AT {site}" for site in sites)
    options = f"'connector' = 'generator', 'rows' = '1', 'seed' = '{seed}'"
    return tuple(f"CREATE TABLE {table} ({tables.declared(table)}) WITH ({options}) {everywhere}" for table in TABLES)


def expected(query: str, sites: Iterable[str]) -> list[tuple[object, ...]]:
    """DuckDB's answer over all rows."""
    everywhere = tuple(sites)
    with duckdb.connect() as database:
        database.execute("SET threads = 1")
        for table in TABLES:
            parts = [rows(seed_of(query), table, site) for site in everywhere]
            counts = zip(everywhere, parts, strict=True)
            named = pa.array([site for site, part in counts for _ in range(part.num_rows)], pa.string())
            database.register(table, pa.concat_tables(parts).append_column("site", named))
        return database.execute(text(query)).fetchall()
