"""Input of the oracle tests: orders born in three regions, in three file formats, their parcels, and tables."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

SITES = ("us", "eu", "asia")
FORMATS = {"us": "csv", "eu": "json", "asia": "parquet"}
HEADER = {"us": ", 'header' = 'true'"}
START = datetime(2026, 3, 1, tzinfo=UTC)
SPAN_S = 300
FILES = 6

ORDERS = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("product", pa.string()),
        ("quantity", pa.int32()),
        ("price", pa.float64()),
        ("fee", pa.decimal128(10, 2)),
        ("express", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Dataset:
    root: Path

    def stream(self, name: str, source: str) -> str:
        """The statement that declares the orders under that name; `source` are the reading options."""
        bindings = ",\n".join(
            f"AT {site} WITH ('path' = '{self.root}/{site}/orders', 'format' = '{FORMATS[site]}'{HEADER.get(site, '')})"
            for site in SITES
        )
        return f"""
        CREATE STREAM {name} (
          id BIGINT, ts TIMESTAMP, product STRING, quantity INT, price DOUBLE, fee DECIMAL(10,2), express BOOLEAN,
          WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
        ) WITH ('connector' = 'files', {source})
        {bindings};"""

    def ddl(self, *, source: str = "'mode' = 'follow', 'until' = 'end'") -> str:
        """Statements that declare everything; `source` are the streams' reading options."""
        return f"""{self.stream("orders", source)}
        CREATE STREAM parcels (
          id BIGINT, ts TIMESTAMP, product STRING, fee DECIMAL(10,2),
          WATERMARK FOR ts AS ts - INTERVAL '8 seconds'
        ) WITH ('connector' = 'files', {source})
          AT asia WITH ('path' = '{self.root}/asia/orders', 'format' = 'parquet');
        CREATE TABLE products (product STRING, name STRING, category STRING)
          WITH ('connector' = 'files', 'format' = 'csv', 'header' = 'true')
          AT us WITH ('path' = '{self.root}/us/products.csv');
        CREATE TABLE recalls (product STRING, reason STRING)
          WITH ('connector' = 'files', 'format' = 'csv', 'header' = 'true')
          AT eu WITH ('path' = '{self.root}/eu/recalls.csv');
        CREATE TABLE stock (product STRING, amount INT)
          WITH ('connector' = 'files', 'format' = 'parquet')
          AT us WITH ('path' = '{self.root}/us/stock.parquet'),
          AT eu WITH ('path' = '{self.root}/eu/stock.parquet'),
          AT asia WITH ('path' = '{self.root}/asia/stock.parquet');
        CREATE VIEW priced (id, ts, what, total, price, born) AS
          SELECT id, ts, product, quantity * price, price, site FROM orders;
        CREATE VIEW dear AS SELECT * FROM priced WHERE price > 40;
        CREATE VIEW labels AS SELECT product, lower(category) AS label FROM products WHERE category <> 'B';
        CREATE VIEW per_product AS
          SELECT window(ts, '30 seconds') AS w, product, count(*) AS n FROM orders GROUP BY 1, 2;
        """


def write_dataset(root: Path, *, rows_per_site: int = 3000, seed: int = 7) -> Dataset:
    """Files in time order, rows inside a file in any order; one row in fifty has NULLs."""
    rng = random.Random(seed)
    for number, site in enumerate(SITES):
        rows = _orders(rng, number, rows_per_site)
        directory = root / site / "orders"
        directory.mkdir(parents=True)
        for part in range(FILES):
            chunk = rows[part * len(rows) // FILES : (part + 1) * len(rows) // FILES]
            rng.shuffle(chunk)
            _write(pa.Table.from_pylist(chunk, ORDERS), directory / f"part-{part:02}.{FORMATS[site]}", FORMATS[site])
        stock = [{"product": f"p{p}", "amount": 100 * number + p} for p in range(number, 10)]
        pa.parquet.write_table(
            pa.Table.from_pylist(stock, pa.schema([("product", pa.string()), ("amount", pa.int32())])),
            root / site / "stock.parquet",
        )
    (root / "eu" / "recalls.csv").write_text("product,reason\n")
    products = [{"product": f"p{p}", "name": f"Product {p}", "category": "ABC"[p % 3]} for p in range(8)]
    pa.csv.write_csv(pa.Table.from_pylist(products), root / "us" / "products.csv")
    return Dataset(root)


def _orders(rng: random.Random, number: int, count: int) -> list[dict[str, object]]:
    times = sorted(rng.randrange(SPAN_S * 1_000_000) for _ in range(count))
    return [order(rng, number * 1_000_000 + n, micros) for n, micros in enumerate(times)]


def order(rng: random.Random, identity: int, micros: int) -> dict[str, object]:
    missing = rng.random() < 0.02
    return {
        "id": identity,
        "ts": START + timedelta(microseconds=micros),
        "product": f"p{rng.randrange(10)}",
        "quantity": None if missing else rng.randrange(1, 9),
        "price": None if missing else round(rng.uniform(1, 100), 2),
        "fee": None if missing else Decimal(rng.randrange(500)) / 100,
        "express": rng.random() < 0.3,
    }


def _write(table: pa.Table, path: Path, file_format: str) -> None:
    if file_format == "parquet":
        pa.parquet.write_table(table, path)
        return
    text = table.set_column(1, "ts", pa.compute.strftime(table.column("ts"), "%Y-%m-%dT%H:%M:%SZ"))
    if file_format == "csv":
        pa.csv.write_csv(text, path)
    else:
        _write_json(text, path)


def _write_json(table: pa.Table, path: Path) -> None:
    with path.open("w") as file:
        for row in table.to_pylist():
            file.write(json.dumps({k: str(v) if k == "fee" and v is not None else v for k, v in row.items()}) + "\n")
