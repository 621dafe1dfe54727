"""The 24 tables of TPC-DS, made up: the specification's columns and keys, but neither sizes nor texts of its dsdgen.

Every value follows from a hash of the row's number and the column's name. Where the queries compare a column with
constants, it has these and a few others, so that conditions keep rows of small tables, too. Returns are of rows that
were sold, and a part of what is sold by catalogue was returned to a store by the same customer before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import duckdb
from sqlglot import exp, parse_one

from benchmarks.tpcds import queries

ROWS = {
    "call_center": 4,
    "catalog_page": 60,
    "customer": 250,
    "customer_address": 150,
    "customer_demographics": 400,
    "date_dim": 2191,
    "household_demographics": 200,
    "income_band": 20,
    "inventory": 20_000,
    "item": 200,
    "promotion": 20,
    "reason": 30,
    "ship_mode": 10,
    "store": 6,
    "time_dim": 1440,
    "warehouse": 4,
    "web_page": 12,
    "web_site": 6,
    "store_sales": 18_000,
    "store_returns": 0,
    "catalog_sales": 9000,
    "catalog_returns": 0,
    "web_sales": 6000,
    "web_returns": 0,
}
"""The tables are in the order in which they are made; those of returns are derived from those of sales."""
_FACTS = tuple(ROWS)[-6:]
_REFERENCES = {
    "item": "item",
    "customer": "customer",
    "cdemo": "customer_demographics",
    "hdemo": "household_demographics",
    "addr": "customer_address",
    "store": "store",
    "promo": "promotion",
    "call_center": "call_center",
    "catalog_page": "catalog_page",
    "ship_mode": "ship_mode",
    "warehouse": "warehouse",
    "reason": "reason",
    "web_page": "web_page",
    "web_site": "web_site",
    "income_band": "income_band",
}
"""The table of a key, by what the column's name has before `_sk`."""
_OF_ORDERS = re.compile(r"(ss|cs|ws)_.*(date|time|customer|cdemo|hdemo|addr|store|web_site|call_center)_sk$")
"""All lines of an order have the same."""
_NEVER_NULL = re.compile(r".*(item_sk|_number|_id)$|(inv|d|t|ib)_")
_FIRST_DAY = 2_450_815
"""The key of 1998-01-01."""
_MONTHS, _QUARTERS = "(year(day) - 1900) * 12 + month(day) - 1", "(year(day) - 1900) * 4 + quarter(day)"
_WEEKS = "(day - DATE '1900-01-01' + 1) // 7 + 1"
_LATER = "+ 1 + pick(n, 'later', 90)"
_SPECIAL = {
    "d_date_sk": f"{_FIRST_DAY - 1} + n",
    "d_date": "day",
    "d_month_seq": _MONTHS,
    "d_week_seq": _WEEKS,
    "d_quarter_seq": _QUARTERS,
    "d_year": "year(day)",
    "d_dow": "dayofweek(day)",
    "d_moy": "month(day)",
    "d_dom": "day(day)",
    "d_qoy": "quarter(day)",
    "d_fy_year": "year(day)",
    "d_fy_quarter_seq": _QUARTERS,
    "d_fy_week_seq": _WEEKS,
    "d_day_name": "dayname(day)",
    "d_quarter_name": "year(day) || 'Q' || quarter(day)",
    "d_weekend": "CASE WHEN dayofweek(day) IN (0, 6) THEN 'Y' ELSE 'N' END",
    "t_time_sk": "(n - 1) * 60",
    "t_time": "(n - 1) * 60",
    "t_hour": "(n - 1) // 60",
    "t_minute": "(n - 1) % 60",
    "t_second": "0",
    "t_meal_time": "['night', 'breakfast', 'lunch', 'dinner'][1 + (n - 1) // 360]",
    "ib_lower_bound": "(n - 1) * 10000 + 1",
    "ib_upper_bound": "n * 10000",
    "r_reason_desc": "'reason ' || n",
    "i_item_id": "printf('ITEM%08d', (n + 1) // 2)",
    "inv_date_sk": f"{_FIRST_DAY} + 7 * pick(n, 'week', {ROWS['date_dim'] // 7})",
    "ss_ticket_number": "1 + n // 3",
    "cs_order_number": "1 + n // 3",
    "ws_order_number": "1 + n // 3",
    "cs_ship_date_sk": f"cs_sold_date_sk {_LATER}",
    "ws_ship_date_sk": f"ws_sold_date_sk {_LATER}",
    "cs_sold_date_sk": f"coalesce(sr_returned_date_sk {_LATER}, {{default}})",
    "cs_bill_customer_sk": "coalesce(sr_customer_sk, {default})",
    "cs_item_sk": "coalesce(sr_item_sk, {default})",
    "sr_item_sk": "ss_item_sk",
    "sr_ticket_number": "ss_ticket_number",
    "sr_customer_sk": "ss_customer_sk",
    "sr_store_sk": "ss_store_sk",
    "sr_returned_date_sk": f"ss_sold_date_sk {_LATER}",
    **{
        f"{back}_{column}": value
        for back, sold in (("cr", "cs"), ("wr", "ws"))
        for column, value in {
            "item_sk": f"{sold}_item_sk",
            "order_number": f"{sold}_order_number",
            "returned_date_sk": f"{sold}_sold_date_sk {_LATER}",
            **{
                f"{who}_{what}_sk": f"{sold}_bill_{what}_sk"
                for who in ("refunded", "returning")
                for what in ("customer", "cdemo", "hdemo", "addr")
            },
        }.items()
    },
}
_MACROS = """
CREATE MACRO pick(n, name, choices) AS CAST(hash(n, name) % choices AS BIGINT);
CREATE MACRO one_of(n, name, words) AS words[1 + pick(n, name, len(words))];
"""


def schema() -> dict[str, dict[str, str]]:
    """The types of all columns, as a declaration of Selat has them, by table and name."""
    text = Path(__file__).with_name("schema.sql").read_text()
    tables = re.findall(r"CREATE TABLE (\w+) \((.*?)\n\);", text, re.DOTALL)
    return {table: dict(re.findall(r"(\w+)\s+([A-Z]+(?:\(\d+,\d+\))?)", columns)) for table, columns in tables}


def load() -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables; NULLs come in Spark's order."""
    db, columns, constants = duckdb.connect(), schema(), _constants(queries().values())
    db.execute(f"{_MACROS} SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    for table in ROWS:
        items = (
            f"CAST({_value(table, name, kind, constants.get(name, ()))} AS {_duckdb(kind)}) AS {name}"
            for name, kind in columns[table].items()
        )
        db.execute(f"CREATE TABLE {table} AS SELECT {', '.join(items)} FROM {_rows(table)}")
    return db


def write_shards(db: duckdb.DuckDBPyConnection, root: Path, sites: Sequence[str]) -> str:
    """Deal the rows of every table out among the sites, as Parquet; returns the declarations of the tables."""
    statements = []
    for table, columns in schema().items():
        bound = []
        for number, site in enumerate(sites):
            directory = root / site / table
            directory.mkdir(parents=True)
            rows = f"SELECT * FROM {table} WHERE rowid % {len(sites)} = {number}"
            db.execute(f"COPY ({rows}) TO '{directory}/rows.parquet' (FORMAT parquet)")
            bound.append(f"AT {site} WITH ('path' = '{directory}', 'format' = 'parquet')")
        declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        statements.append(f"CREATE TABLE {table} ({declared}) WITH ('connector' = 'files') {', '.join(bound)};")
    return "\n".join(statements)


def _rows(table: str) -> str:
    """Return what a table's SELECT has after FROM; its column `n` is the number of the row, from 1."""
    if table == "date_dim":
        return f"(SELECT n, DATE '1997-12-31' + CAST(n AS INT) AS day FROM range(1, {ROWS[table] + 1}) t(n))"
    if table.endswith("_returns"):
        sold = table.replace("returns", "sales")
        return f"(SELECT *, 1 + rowid AS n FROM {sold} WHERE pick(rowid, 'returned', 8) = 0)"
    rows = f"range(1, {ROWS[table] + 1}) t(n)"
    if table == "catalog_sales":
        again = "(SELECT sr_returned_date_sk, sr_customer_sk, sr_item_sk, 4 * rowid AS m FROM store_returns)"
        return f"{rows} LEFT JOIN {again} ON m = n"
    return rows


def _value(table: str, name: str, kind: str, constants: Sequence[str]) -> str:
    default = _default(table, name, kind, constants)
    value = _SPECIAL.get(name, default).replace("{default}", default)
    is_key = name == next(iter(schema()[table]))
    if _NEVER_NULL.match(name) or (is_key and table not in _FACTS):
        return value
    return f"CASE WHEN pick(n, 'null {name}', {25 if table in _FACTS else 60}) > 0 THEN {value} END"


def _default(table: str, name: str, kind: str, constants: Sequence[str]) -> str:
    row = "n // 3" if _OF_ORDERS.match(name) else "n"
    if name.endswith("_sk"):
        return _key(table, name, row)
    if name.endswith("_id") and kind == "STRING":
        return f"printf('{name.upper()}%06d', {row})"
    if kind == "DATE":
        return f"DATE '1998-01-01' + CAST(pick(n, '{name}', {ROWS['date_dim']}) AS INT)"
    if name.endswith("tax_percentage"):
        return f"pick(n, '{name}', 12) / 100"
    if name.endswith("gmt_offset"):
        return f"-5 - pick(n, '{name}', 3)"
    if kind == "STRING":
        return _one_of(
            name, [*(f"'{c}'" for c in constants), *(f"'{name} {number}'" for number in range(1 if constants else 4))]
        )
    numbers = [c for c in constants if re.fullmatch(r"[\d.]+", c)]
    if kind.startswith("DECIMAL"):
        most = 20_000 if name.endswith(("price", "wholesale_cost")) else 500_000
        least = most // 4 if name.endswith(("profit", "loss")) else 0
        any_ = f"(pick(n, '{name}', {most}) - {least}) / 100"
        few = [*numbers, "0", "1"]
        return f"CASE WHEN pick(n, 'few {name}', 4) = 0 THEN {_one_of(name, few)} ELSE {any_} END"
    return _one_of(name, [*numbers, *map(str, range(1, 100 if "quantity" in name else 3 if numbers else 7))])


def _key(table: str, name: str, row: str) -> str:
    if name == next(iter(schema()[table])) and table not in (*_FACTS, "inventory"):
        return "n"
    if name.endswith("date_sk"):
        return f"{_FIRST_DAY} + pick({row}, '{name}', {ROWS['date_dim']})"
    if name.endswith("time_sk"):
        return f"60 * pick({row}, '{name}', {ROWS['time_dim']})"
    of = next(known for end, known in _REFERENCES.items() if name.endswith(f"_{end}_sk"))
    return f"1 + pick({row}, '{name}', {ROWS[of]})"


def _one_of(name: str, values: Iterable[str]) -> str:
    return f"one_of(n, '{name}', [{', '.join(dict.fromkeys(values))}])"


def _constants(texts: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the literals with which the texts compare columns, by the columns' names."""
    found: dict[str, dict[str, None]] = {"s_zip": {}}
    for text in texts:
        for node in parse_one(text, read="duckdb").find_all(
            exp.EQ, exp.In, exp.Between, exp.GT, exp.LT, exp.GTE, exp.LTE
        ):
            names = {column.name.lower() for column in node.find_all(exp.Column)}
            if len(names) == 1 and node.find(exp.Select) is None:
                literals = [literal.this for literal in node.find_all(exp.Literal)]
                found.setdefault(names.pop(), {}).update(dict.fromkeys(literals))
    found["s_zip"] = found["ca_zip"]
    return {name: tuple(values) for name, values in found.items()}


def _duckdb(kind: str) -> str:
    return "VARCHAR" if kind == "STRING" else kind
