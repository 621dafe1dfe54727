from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from planner.relations.catalog import TableStatistics
from planner.sql import parse_script
from planner.sql.analyze_ddl import statistics_of, statistics_query
from planner.sql.statements import AnalyzeTable
from planner.values.errors import Position, SqlSyntaxError, UnknownColumnError
from tests.unit.planner.build import catalog_of

CATALOG = catalog_of(
    "CREATE TABLE t (a INT, `b c` STRING, m MAP<STRING,INT>) AT us WITH ('connector' = 'other')",
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def analyze(text: str) -> AnalyzeTable:
    (statement,) = parse_script(text)
    assert isinstance(statement, AnalyzeTable)
    return statement


@pytest.mark.parametrize(
    ("behind", "items"),
    [
        ("", ""),
        (" FOR COLUMNS `B C`", ", approx_count_distinct(`b c`) AS `distinct_b c`"),
        (" FOR COLUMNS a, A", ", approx_count_distinct(`a`) AS `distinct_a`, min(`a`) AS `min_a`, max(`a`) AS `max_a`"),
        (
            " FOR ALL COLUMNS",
            ", approx_count_distinct(`a`) AS `distinct_a`, approx_count_distinct(`b c`) AS `distinct_b c`, "
            "min(`a`) AS `min_a`, max(`a`) AS `max_a`",
        ),
    ],
)
def test_the_query_counts_rows_and_the_values_of_columns(behind: str, items: str) -> None:
    table = CATALOG.find("t")
    assert table is not None
    query = statistics_query(analyze(f"ANALYZE TABLE T COMPUTE STATISTICS{behind};"), table)
    assert query.text == f"SELECT count(*) AS rows{items} FROM `t`"


def test_what_its_row_says() -> None:
    assert statistics_of({"rows": 9, "distinct_b c": 3}, NOW) == TableStatistics(9, {"b c": 3}, NOW)
    row = {
        "rows": 9,
        "distinct_a": 2,
        "min_a": -1,
        "max_a": Decimal("2.5"),
        "distinct_b": 0,
        "min_b": None,
        "max_b": None,
    }
    assert statistics_of(row, NOW) == TableStatistics(9, {"a": 2, "b": 0}, NOW, {"a": (-1.0, 2.5)})
    days = {"rows": 9, "distinct_d": 2, "min_d": date(1, 1, 1), "max_d": date(1, 1, 31)}
    assert statistics_of(days, NOW).ranges == {"d": (1.0, 31.0)}


def test_a_column_that_is_not_there_has_its_place() -> None:
    table = CATALOG.find("t")
    assert table is not None
    with pytest.raises(UnknownColumnError) as caught:
        statistics_query(analyze("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS d"), table)
    assert (caught.value.position, caught.value.found) == (Position(1, 1), "d")
    assert caught.value.hint == "It has a, b c, m."


@pytest.mark.parametrize(
    "text",
    [
        "ANALYZE t",
        "ANALYZE TABLE t",
        "ANALYZE TABLE t COMPUTE STATISTICS NOSCAN",
        "ANALYZE TABLE t COMPUTE STATISTICS FOR a",
        "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS",
        "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_script(text)
