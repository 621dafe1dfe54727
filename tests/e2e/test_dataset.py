"""The oracle itself: its views hold what was written, and its queries run."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.e2e.dataset import write_dataset
from tests.e2e.oracle import Answer, assert_same, connect, expected, rows_of
from tests.e2e.queries import CASES


def test_every_case_has_an_answer(tmp_path: Path) -> None:
    db = connect(write_dataset(tmp_path, rows_per_site=3000))

    assert expected(db, "SELECT count(*), count(price) < count(*) FROM orders").rows == ((9000, True),)
    for case in CASES:
        assert expected(db, case.oracle), case.name


def test_a_sum_of_integers_is_a_bigint_as_in_spark() -> None:
    assert_same(
        rows_of(pa.table({"q": pa.array([6], pa.int64())})), answer("SELECT sum(x) AS q FROM range(4) t(x)"), ""
    )


@pytest.mark.parametrize(
    ("table", "difference"),
    [
        (pa.table({"m": pa.array([6], pa.int64())}), "columns m int64, the oracle has n int64"),
        (pa.table({"n": pa.array([6], pa.int32())}), "columns n int32, the oracle has n int64"),
        (pa.table({"n": pa.array([6.0])}), "columns n double, the oracle has n int64"),
        (pa.table({"n": pa.array([7], pa.int64())}), r"\(7,\), the oracle says \(6,\)"),
    ],
)
def test_names_types_and_rows_are_compared(table: pa.Table, difference: str) -> None:
    with pytest.raises(AssertionError, match=f"query: {difference}"):
        assert_same(rows_of(table), answer("SELECT 6::BIGINT AS n"), "query")


def test_a_type_that_nobody_mapped_is_an_error() -> None:
    with pytest.raises(KeyError, match="UUID"):
        answer("SELECT uuid() AS u")


def answer(sql: str) -> Answer:
    return expected(duckdb.connect(), sql)
