from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import duckdb
import pyarrow as pa
import pytest

from selat.demo import oracle
from selat.demo.dataset import prepare, queries

DAY = datetime(2013, 2, 3, tzinfo=UTC)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    with oracle.connect(prepare(tmp_path_factory.mktemp("nyc")).root) as connection:
        yield connection


def test_the_oracle_reads_all_rows_and_their_missing_values(db: duckdb.DuckDBPyConnection) -> None:
    assert oracle.expected(db, "SELECT count(*), count(dep_delay), max(dep_delay) FROM flights") == [
        (336_776, 328_521, 1301)
    ]


def test_every_query_has_an_answer(db: duckdb.DuckDBPyConnection) -> None:
    rows = {query.name: len(oracle.expected(db, query.oracle)) for query in queries()}
    assert rows == {"delays": 5442, "worst_destinations": 1098, "wind": 2370, "alerts": 610, "seats": 324}


def test_windows_begin_where_those_of_spark_do(db: duckdb.DuckDBPyConnection) -> None:
    (row,) = oracle.expected(db, "SELECT day_of(t), week_of(t) FROM (SELECT TIMESTAMPTZ '2013-02-05 23:30:00Z' AS t)")
    # Windows of seven days begin on Thursdays, as 1970-01-01 was one.
    assert row == (datetime(2013, 2, 5, tzinfo=UTC), datetime(2013, 1, 31, tzinfo=UTC))


def test_order_and_last_digits_do_not_matter() -> None:
    ours = [("b", 0.1 + 0.2), ("a", 1.0)]
    assert oracle.difference(ours, [("a", 1.0), ("b", 0.3)]) == ""


@pytest.mark.parametrize(
    ("ours", "wanted", "words"),
    [
        ([("a", 1)], [("a", 2)], "got ('a', 1), the oracle has ('a', 2)"),
        ([("a", 1.0)], [("a", 1.00001)], "got ('a', 1.0), the oracle has ('a', 1.00001)"),
        ([("a",)], [("a",), ("a",)], "1 rows, the oracle has 2"),
        ([("a",), ("a",)], [("a",)], "2 rows, the oracle has 1"),
        ([("a", None)], [("a", 0)], "got ('a', None), the oracle has ('a', 0)"),
        ([("a", 1)], [("a", 1.0)], "got ('a', 1), the oracle has ('a', 1.0)"),
        ([("a", 1)], [("a",)], "got ('a', 1), the oracle has ('a',)"),
    ],
)
def test_differences_are_told(ours: list[oracle.Row], wanted: list[oracle.Row], words: str) -> None:
    assert oracle.difference(ours, wanted) == words


def test_instants_are_compared_whatever_their_zone() -> None:
    elsewhere = DAY.astimezone(timezone(timedelta(hours=-5)))
    assert oracle.difference([(elsewhere,)], [(DAY,)]) == ""


def test_rows_of_a_result() -> None:
    table = pa.table({"day": pa.array([DAY], pa.timestamp("us", "UTC")), "n": pa.array([3], pa.int64())})
    assert oracle.difference(oracle.rows_of(table), [(DAY, 3)]) == ""
