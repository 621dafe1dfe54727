"""The eight tables of TPC-H: as its dbgen makes them, or made up for small scales.

Those that are made up have the specification's columns, keys, sizes and domains, but no text of dbgen. Every value
follows from a hash of the row's number, so the same scale gives the same rows. Unlike dbgen's, one order in 500 is
large in each line, and one part in 100 is what Q17 asks for, so that these have results at small scales, too. Rows lie
at the sites by their number, so that nothing that is joined lies together.
"""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb

TABLES = {
    "region": "r_regionkey INT, r_name STRING, r_comment STRING",
    "nation": "n_nationkey INT, n_name STRING, n_regionkey INT, n_comment STRING",
    "supplier": "s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey INT, s_phone STRING, "
    "s_acctbal DECIMAL(15,2), s_comment STRING",
    "customer": "c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey INT, c_phone STRING, "
    "c_acctbal DECIMAL(15,2), c_mktsegment STRING, c_comment STRING",
    "part": "p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT, "
    "p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2), ps_comment STRING",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), "
    "o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15,2), "
    "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, "
    "l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, "
    "l_shipmode STRING, l_comment STRING",
}
"""Columns as a declaration of Selat has them."""

_MACROS = """
CREATE MACRO pick(n, salt, choices) AS CAST(hash(n * 64 + salt) % choices AS BIGINT);
CREATE MACRO one_of(n, salt, words) AS words[1 + pick(n, salt, len(words))];
CREATE MACRO cents(n, salt, low, high) AS CAST((low + pick(n, salt, high - low + 1)) / 100 AS DECIMAL(15,2));
CREATE MACRO colour(n, salt) AS one_of(n, salt, ['almond', 'azure', 'blue', 'chocolate', 'coral', 'cream', 'dim',
  'forest', 'ghost', 'green', 'honeydew', 'ivory', 'khaki', 'lace', 'linen', 'maroon', 'navy', 'olive', 'peru',
  'rose']);
CREATE MACRO words(n, salt) AS colour(n, salt) || ' ' || one_of(n, salt + 1, ['deposits', 'requests', 'accounts',
  'packages', 'theodolites', 'pinto beans']) || ' ' || one_of(n, salt + 2, ['sleep', 'wake', 'haggle', 'nag'])
  || ' ' || one_of(n, salt + 3, ['special', 'final', 'bold', 'express']) || ' ' || one_of(n, salt + 4, ['requests',
  'ideas', 'foxes', 'deposits']);
CREATE MACRO phone(n, nation) AS (nation + 10) || '-' || (100 + pick(n, 1, 900)) || '-' || (1000 + pick(n, 2, 9000));
CREATE MACRO supplier_of(part, number, suppliers) AS
  1 + (part + number * (suppliers // 4 + (part - 1) // suppliers)) % suppliers;
"""
_STATEMENTS = """
CREATE TABLE region AS SELECT CAST(i AS INT) AS r_regionkey,
  ['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST'][i + 1] AS r_name, words(i, 10) AS r_comment FROM range(5) t(i);
CREATE TABLE nation AS SELECT CAST(i AS INT) AS n_nationkey, ['ALGERIA', 'ARGENTINA', 'BRAZIL', 'CANADA', 'EGYPT',
  'ETHIOPIA', 'FRANCE', 'GERMANY', 'INDIA', 'INDONESIA', 'IRAN', 'IRAQ', 'JAPAN', 'JORDAN', 'KENYA', 'MOROCCO',
  'MOZAMBIQUE', 'PERU', 'CHINA', 'ROMANIA', 'SAUDI ARABIA', 'VIETNAM', 'RUSSIA', 'UNITED KINGDOM', 'UNITED STATES'
  ][i + 1] AS n_name, CAST([0, 1, 1, 1, 4, 0, 3, 3, 2, 2, 4, 4, 2, 4, 0, 0, 0, 1, 2, 3, 4, 2, 3, 3, 1][i + 1] AS INT)
  AS n_regionkey, words(i, 11) AS n_comment FROM range(25) t(i);
CREATE TABLE supplier AS SELECT i AS s_suppkey, printf('Supplier#%09d', i) AS s_name, words(i, 12) AS s_address,
  CAST(i % 25 AS INT) AS s_nationkey, phone(i, i % 25) AS s_phone, cents(i, 14, -99999, 999999) AS s_acctbal,
  CASE WHEN i % 20 = 0 THEN 'the Customer has Complaints' ELSE words(i, 15) END AS s_comment
  FROM range(1, {suppliers} + 1) t(i);
CREATE TABLE customer AS SELECT i AS c_custkey, printf('Customer#%09d', i) AS c_name, words(i, 16) AS c_address,
  CAST(pick(i, 17, 25) AS INT) AS c_nationkey, phone(i, pick(i, 17, 25)) AS c_phone,
  cents(i, 18, -99999, 999999) AS c_acctbal, one_of(i, 19, ['AUTOMOBILE', 'BUILDING', 'FURNITURE', 'MACHINERY',
  'HOUSEHOLD']) AS c_mktsegment, words(i, 20) AS c_comment FROM range(1, {customers} + 1) t(i);
CREATE TABLE part AS SELECT i AS p_partkey, colour(i, 21) || ' ' || colour(i, 22) || ' ' || colour(i, 23) AS p_name,
  'Manufacturer#' || (1 + pick(i, 24, 5)) AS p_mfgr,
  CASE WHEN i % 100 = 7 THEN 'Brand#23' ELSE 'Brand#' || (1 + pick(i, 24, 5)) || (1 + pick(i, 25, 5)) END AS p_brand,
  one_of(i, 26, ['STANDARD', 'SMALL', 'MEDIUM', 'LARGE', 'ECONOMY', 'PROMO']) || ' ' || one_of(i, 27, ['ANODIZED',
  'BURNISHED', 'PLATED', 'POLISHED', 'BRUSHED']) || ' ' || one_of(i, 28, ['TIN', 'NICKEL', 'BRASS', 'STEEL', 'COPPER'])
  AS p_type, CAST(1 + pick(i, 29, 50) AS INT) AS p_size, CASE WHEN i % 100 = 7 THEN 'MED BOX' ELSE
  one_of(i, 30, ['SM', 'LG', 'MED', 'JUMBO', 'WRAP']) || ' '
  || one_of(i, 31, ['CASE', 'BOX', 'BAG', 'JAR', 'PKG', 'PACK', 'CAN', 'DRUM']) END AS p_container,
  CAST((90000 + (i // 10) % 20001 + 100 * (i % 1000)) / 100 AS DECIMAL(15,2)) AS p_retailprice,
  words(i, 32) AS p_comment FROM range(1, {parts} + 1) t(i);
CREATE TABLE partsupp AS SELECT i AS ps_partkey, supplier_of(i, j, {suppliers}) AS ps_suppkey,
  CAST(1 + pick(i * 4 + j, 33, 9999) AS INT) AS ps_availqty, cents(i * 4 + j, 34, 100, 100000) AS ps_supplycost,
  words(i * 4 + j, 35) AS ps_comment FROM range(1, {parts} + 1) t(i), range(4) u(j);
CREATE TABLE lines AS SELECT o, j, o * 8 + j AS n, DATE '1992-01-01' + CAST(pick(o, 36, 2406) AS INT) AS ordered,
  1 + pick(o * 8 + j, 37, {parts}) AS part, CASE WHEN o % 500 = 0 THEN 45 + pick(o * 8 + j, 38, 6)
  ELSE 1 + pick(o * 8 + j, 38, 50) END AS quantity
  FROM range(1, {orders} + 1) t(o), range(7) u(j) WHERE o % 500 = 0 OR j <= pick(o, 39, 7);
CREATE TABLE lineitem AS SELECT o AS l_orderkey, part AS l_partkey,
  supplier_of(part, pick(n, 40, 4), {suppliers}) AS l_suppkey, CAST(j + 1 AS INT) AS l_linenumber,
  CAST(quantity AS DECIMAL(15,2)) AS l_quantity,
  CAST(quantity * (90000 + (part // 10) % 20001 + 100 * (part % 1000)) / 100 AS DECIMAL(15,2)) AS l_extendedprice,
  cents(n, 41, 0, 10) AS l_discount, cents(n, 42, 0, 8) AS l_tax,
  CASE WHEN ordered + CAST(1 + pick(n, 43, 121) + 1 + pick(n, 45, 30) AS INT) <= DATE '1995-06-17'
  THEN one_of(n, 46, ['R', 'A']) ELSE 'N' END AS l_returnflag,
  CASE WHEN ordered + CAST(1 + pick(n, 43, 121) AS INT) > DATE '1995-06-17' THEN 'O' ELSE 'F' END AS l_linestatus,
  ordered + CAST(1 + pick(n, 43, 121) AS INT) AS l_shipdate,
  ordered + CAST(30 + pick(n, 44, 61) AS INT) AS l_commitdate,
  ordered + CAST(1 + pick(n, 43, 121) + 1 + pick(n, 45, 30) AS INT) AS l_receiptdate,
  one_of(n, 47, ['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN']) AS l_shipinstruct,
  one_of(n, 48, ['REG AIR', 'AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB']) AS l_shipmode, words(n, 49) AS l_comment
  FROM lines;
CREATE TABLE orders AS SELECT l_orderkey AS o_orderkey,
  1 + 3 * pick(l_orderkey, 50, {customers} // 3) + pick(l_orderkey, 51, 2) AS o_custkey,
  CASE WHEN bool_and(l_linestatus = 'F') THEN 'F' WHEN bool_and(l_linestatus = 'O') THEN 'O' ELSE 'P' END
  AS o_orderstatus, CAST(sum(l_extendedprice * (1 + l_tax) * (1 - l_discount)) AS DECIMAL(15,2)) AS o_totalprice,
  DATE '1992-01-01' + CAST(pick(l_orderkey, 36, 2406) AS INT) AS o_orderdate,
  one_of(l_orderkey, 52, ['1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW']) AS o_orderpriority,
  printf('Clerk#%09d', 1 + pick(l_orderkey, 53, 1000)) AS o_clerk, CAST(0 AS INT) AS o_shippriority,
  words(l_orderkey, 54) AS o_comment FROM lineitem GROUP BY l_orderkey;
DROP TABLE lines;
"""


def load(scale: float) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables; at scale 1 there are about 6 million lines."""
    sizes = {
        "suppliers": max(int(10_000 * scale), 25),
        "customers": max(int(150_000 * scale), 150),
        "parts": max(int(200_000 * scale), 200),
        "orders": max(int(1_500_000 * scale), 1500),
    }
    db = duckdb.connect()
    db.execute(_MACROS)
    db.execute(_STATEMENTS.format(**sizes))
    return db


def load_dbgen(scale: float) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tables that dbgen makes at this scale, of the declared types.

    Raises:
        subprocess.CalledProcessError: the generator failed; it says why on the terminal.
    """
    generator = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    db = duckdb.connect()
    with tempfile.TemporaryDirectory(prefix="selat-dbgen-") as directory:
        subprocess.run([generator, "parquet", "-s", f"{scale:g}", "--output-dir", directory], check=True)
        for name, columns in TABLES.items():
            # DuckDB knows the types by Spark's names.
            db.execute(f"CREATE TABLE {name} ({columns})")
            db.execute(f"INSERT INTO {name} SELECT * FROM '{directory}/{name}.parquet'")
    return db


def write_shards(db: duckdb.DuckDBPyConnection, root: Path, sites: Sequence[str]) -> None:
    """The rows of every table, dealt out among the sites: `root/site/table/rows.parquet`; the smallest lie at one."""
    for number, name in enumerate(TABLES):
        homes = [sites[number % len(sites)]] if name in ("region", "nation") else sites
        for index, site in enumerate(homes):
            directory = root / site / name
            directory.mkdir(parents=True, exist_ok=True)
            db.execute(
                f"COPY (SELECT * FROM {name} WHERE rowid % {len(homes)} = {index}) "
                f"TO '{directory}/rows.parquet' (FORMAT parquet)"
            )


def declarations(root: Path, sites: Sequence[str], prefix: str = "") -> str:
    """The tables of Selat over those files."""
    statements = []
    for name, columns in TABLES.items():
        bound = ", ".join(
            f"AT {site} WITH ('path' = '{root}/{site}/{name}', 'format' = 'parquet')"
            for site in sites
            if (root / site / name).is_dir()
        )
        statements.append(f"CREATE TABLE {prefix}{name} ({columns}) WITH ('connector' = 'files') {bound};")
    return "\n".join(statements)
