"""Streams whose event time is when their rows arrive: a column as any other, the last of `*`."""

from __future__ import annotations

import pytest

from planner.graph.plan import DraftPlan
from planner.planning.questions import analysis_of_query
from planner.relations.catalog import Column
from tests.unit.planner.build import assert_refused, catalog_of, draft_of

CATALOG = catalog_of("""
CREATE STREAM hits (page STRING, ms INT, WATERMARK FOR arrived) WITH ('connector' = 'push') AT us AT eu;
CREATE STREAM views (page STRING, ts TIMESTAMP, WATERMARK FOR ts) WITH ('connector' = 'push') AT us;
""")


def read(draft: DraftPlan) -> list[tuple[str, ...]]:
    return [stage.read_columns for stage in draft.stages if stage.relation]


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM hits", ("page", "ms", "arrived")),
        ("SELECT page FROM hits", ("page", "arrived")),
        ("SELECT window.start, count(*) AS n FROM hits GROUP BY window(arrived, '10 seconds')", ("arrived",)),
        (
            "SELECT date(arrived) AS day, page, count(*) AS n FROM hits GROUP BY date(arrived), page",
            ("page", "arrived"),
        ),
        ("SELECT count(*) AS n FROM (SELECT * FROM hits) AS h GROUP BY window(h.arrived, '1 hour')", ("arrived",)),
    ],
)
def test_a_source_reads_the_time(sql: str, columns: tuple[str, ...]) -> None:
    draft = draft_of(sql, CATALOG)
    assert read(draft) == [columns]
    assert [stage.by_arrival for stage in draft.stages if stage.relation] == [True]


def test_streams_are_joined_by_it() -> None:
    joined = """SELECT h.page, v.ts FROM hits h JOIN views v
        ON h.page = v.page AND window(h.arrived, '10 seconds') = window(v.ts, '10 seconds')"""
    assert read(draft_of(joined, CATALOG)) == [("page", "arrived"), ("page", "ts")]


def test_spark_is_told_of_it() -> None:
    analysis = analysis_of_query(draft_of("SELECT *, hour(arrived) AS h FROM hits", CATALOG), CATALOG)
    assert analysis.views["hits"] == (
        Column("page", "STRING"),
        Column("ms", "INT"),
        Column("arrived", "TIMESTAMP"),
    )


def test_other_streams_have_no_such_column() -> None:
    assert_refused("SELECT arrived FROM views", "there is no column arrived", CATALOG)
    assert_refused(
        "SELECT count(*) AS n FROM hits GROUP BY window(page, '10 seconds')",
        "must be on the stream's event-time",
        CATALOG,
    )
