"""SQLAlchemy and pandas over three sites: equal to DuckDB's results over the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import pytest
from sqlalchemy import Engine, MetaData, Table, create_engine, func, inspect, select, text

from tests.e2e.faults import Scene

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def engine(calm: Scene) -> Iterator[Engine]:
    found = create_engine(f"selat://{calm.cluster.address}")
    yield found
    found.dispose()


@pytest.fixture(scope="module")
def db(calm: Scene) -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    root = calm.dataset.root
    found.execute(f"CREATE VIEW stock AS SELECT * FROM read_parquet('{root}/*/stock.parquet')")
    found.execute(f"CREATE VIEW products AS SELECT * FROM read_csv('{root}/us/products.csv', header = true)")
    return found


def rows_of(result: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in result]


def test_core_over_reflected_tables(engine: Engine, db: duckdb.DuckDBPyConnection) -> None:
    metadata = MetaData()
    stock = Table("stock", metadata, autoload_with=engine)
    products = Table("products", metadata, autoload_with=engine)
    assert {"stock", "products"} <= set(inspect(engine).get_table_names())
    total = func.sum(stock.c.amount).label("total")
    statement = (
        select(products.c.category, total, func.count().label("n"))
        .join(stock, stock.c.product == products.c.product)
        .where(stock.c.amount > 3, products.c.name != "it's")
        .group_by(products.c.category)
        .order_by(total.desc())
        .limit(2)
    )
    expected = db.execute(
        """SELECT category, sum(amount), count(*) FROM products JOIN stock USING (product)
        WHERE amount > 3 GROUP BY category ORDER BY 2 DESC LIMIT 2"""
    ).fetchall()
    inner = select(stock.c.product).where(stock.c.amount.between(100, 105)).subquery()
    known = select(products.c.product).where(products.c.product.in_(select(inner.c.product)))
    with engine.connect() as connection:
        assert rows_of(connection.execute(statement)) == expected
        assert sorted(connection.execute(known).scalars()) == ["p1", "p2", "p3", "p4", "p5"]
        assert connection.execute(select(stock.c.amount).where(stock.c.amount.in_([]))).all() == []
        scaled = select(func.max(stock.c.amount * Decimal("1.5")), func.min(stock.c.amount / 2))
        assert (
            rows_of(connection.execute(scaled))
            == db.execute("SELECT max(amount * 1.5), min(amount / 2) FROM stock").fetchall()
        )


def test_pandas_and_texts(engine: Engine, db: duckdb.DuckDBPyConnection) -> None:
    query = text("SELECT product, sum(amount) AS total FROM stock WHERE amount >= :least GROUP BY product")
    found = pd.read_sql(query, engine, params={"least": 100}).sort_values("product")
    expected = db.execute(
        "SELECT product, sum(amount) FROM stock WHERE amount >= 100 GROUP BY product ORDER BY product"
    ).fetchall()
    assert list(found.itertuples(index=False, name=None)) == expected
    whole = pd.read_sql_table("stock", engine)
    assert len(whole) == db.execute("SELECT count(*) FROM stock").fetchall()[0][0]
    assert len(pd.read_sql("SELECT * FROM labels", engine)) == 5
