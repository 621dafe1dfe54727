"""Small tables for random queries: few values, so that much matches, NULLs everywhere, rows that are there twice."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from random import Random

import pyarrow as pa

TABLES: Mapping[str, Mapping[str, str]] = {
    "t": {"a": "INT", "b": "INT", "s": "STRING"},
    "u": {"a": "INT", "b": "DECIMAL(5,1)", "s": "STRING", "d": "DATE"},
    "v": {"a": "INT", "b": "INT", "d": "DATE"},
    "w": {"a": "BIGINT", "b": "DECIMAL(5,1)", "d": "DATE"},
}
"""Columns by name, with Spark's types. What is compared has the same type here, and another one there."""
_ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DECIMAL(5,1)": pa.decimal128(5, 1),
    "STRING": pa.string(),
    "DATE": pa.date32(),
}
_TEXTS = ("x", "y", "xy", "X", "x ", "")

Row = tuple[int | str | Decimal | date | None, ...]


def schema(table: str) -> pa.Schema:
    """The columns of a table as Arrow has them."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in TABLES[table].items()])


def declared(table: str) -> str:
    """Its columns as CREATE TABLE has them."""
    return ", ".join(f"{name} {kind}" for name, kind in TABLES[table].items())


def rows(table: str, random: Random) -> pa.Table:
    """The rows of a table at one place, which may be none; every fourth value is NULL, seldom all of a column."""
    count = random.choice((0, 1, 4, 8, 12, 15))
    nulls = {name: 1.0 if random.random() < 0.05 else 0.25 for name in TABLES[table]}
    made = [
        tuple(None if random.random() < nulls[name] else _value(kind, random) for name, kind in TABLES[table].items())
        for _ in range(count)
    ]
    return to_arrow(table, made + random.sample(made, count // 3))


def to_arrow(table: str, made: list[Row]) -> pa.Table:
    """These rows of a table."""
    columns = zip(*made, strict=True) if made else [()] * len(TABLES[table])
    fields = schema(table)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=fields)


def _value(kind: str, random: Random) -> int | str | Decimal | date:
    number = random.randrange(-1, 5)
    match kind:
        case "STRING":
            return random.choice(_TEXTS)
        case "DATE":
            return date(2026, 1 + number % 3, 28)
        case "DECIMAL(5,1)":
            return Decimal(number) + Decimal(random.choice(("0.0", "0.0", "0.5")))
    return number
