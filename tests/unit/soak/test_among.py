"""The oracle's comparison with a part of its rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.e2e.oracle import Answer, Row, assert_among, rows_of


def answer(*rows: Row) -> Answer:
    return rows_of(pa.table({"k": [row[0] for row in rows], "total": [float(str(row[1])) for row in rows]}))


def test_sums_in_another_order_are_the_same() -> None:
    # Rounded to any number of digits, two such sums may fall on two sides.
    assert_among(answer(("-", 51456.45)), answer(("-", 51456.449999999975), ("x", 1.0)), "name")


@pytest.mark.parametrize("rows", [[("-", 51456.46)], [("x", 1.0), ("x", 1.0)], [("y", 1.0)]])
def test_no_row_is_there_that_the_oracle_lacks(rows: list[Row]) -> None:
    with pytest.raises(AssertionError, match="does not have"):
        assert_among(answer(*rows), answer(("-", 51456.45), ("x", 1.0)), "name")
