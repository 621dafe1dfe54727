"""Values of tables, and tables that are grouped, joined to streams."""

from __future__ import annotations

import pytest

from planner.text.logical import logical_lines
from planner.values.stages import StageKind
from tests.unit.planner.build import assert_refused, catalog_of, draft_of

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, v DOUBLE, g STRING, WATERMARK FOR ts)
      WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE t (k INT, x DOUBLE, n STRING) WITH ('connector' = 'other') AT us AT hub;
    CREATE VIEW small AS SELECT k, x FROM t WHERE x < 9;
    """
)


def test_sites_of_a_table_send_partials_of_its_groups() -> None:
    text = (
        "SELECT s.k, q.m FROM s JOIN (SELECT k, avg(x) AS m FROM t WHERE n <> 'a' GROUP BY k HAVING count(*) > 1) AS q "
        "ON q.k = s.k AND q.m > 1"
    )
    draft = draft_of(text, CATALOG)
    table, source = draft.stages
    assert (table.kind, table.pinned, table.read_columns) == (StageKind.TABLE, ("hub", "us"), ("k", "x", "n"))
    assert table.sql == (
        "SELECT _k0, sum(_c0) AS _p0, count(_c0) AS _p1, count(*) AS _p2 FROM (SELECT input.k AS _k0, input.x AS _c0 "
        "FROM input WHERE input.n <> 'a') AS kept GROUP BY _k0"
    )
    assert "JOIN (SELECT * FROM (SELECT _k0 AS k, _a0 AS m FROM" in source.sql
    assert source.sql.endswith("WHERE t1.m > 1) AS t1 ON t1.k = input.k")
    assert any("Aggregate[k]" in line for line in logical_lines(draft.logical))
    assert "q: sites of t send partials of its groups" in draft.notes


@pytest.mark.parametrize(
    ("text", "join", "value"),
    [
        ("SELECT v FROM s WHERE v > (SELECT avg(x) FROM t)", "ON TRUE", "input.v > t1.sub_query_value_0"),
        (
            "SELECT v - (SELECT min(x) FROM t WHERE t.k = s.k) AS d FROM s",
            "ON t1.sub_query_key_0 = input.k",
            "input.v - t1.sub_query_value_0 AS d",
        ),
        (
            "SELECT (SELECT count(*) FROM t WHERE n = g AND s.k = t.k AND x > 1) AS c FROM s",
            "ON t1.sub_query_key_0 = input.g AND t1.sub_query_key_1 = input.k",
            "coalesce(t1.sub_query_value_0, 0) AS c",
        ),
        (
            "SELECT (SELECT coalesce(max(x), -1) + count_if(x > 1) FILTER (WHERE n = 'a') FROM t WHERE t.k = s.k) AS c "
            "FROM s",
            "ON t1.sub_query_key_0 = input.k",
            "(coalesce(t1.sub_query_value_0, -1) + coalesce(t1.sub_query_value_1, 0)) AS c",
        ),
        (
            "SELECT v, (SELECT 1 + regr_count(x, k) FROM t) AS c FROM s",
            "ON TRUE",
            "(1 + coalesce(t1.sub_query_value_0, 0)) AS c",
        ),
    ],
)
def test_a_value_is_joined_with_every_row(text: str, join: str, value: str) -> None:
    *_, source = draft_of(text, CATALOG).stages
    assert "LEFT JOIN" in source.sql
    assert join in source.sql
    assert value in source.sql


def test_views_of_a_table_are_grouped_where_the_table_is() -> None:
    for text in (
        "SELECT v + (SELECT max(x) FROM small WHERE small.k = s.k) AS c FROM s",
        "SELECT q.m FROM s JOIN (SELECT k, max(x) AS m FROM (SELECT k, x FROM small WHERE x > 1) GROUP BY k) AS q "
        "ON q.k = s.k",
    ):
        table, source = draft_of(text, CATALOG).stages
        assert table.relation == "t"
        assert "input.x < 9" in table.sql
        assert table.sql.endswith("GROUP BY _k0")
        assert "= input.k" in source.sql


def test_rows_are_kept_by_groups_of_a_table() -> None:
    table, source = draft_of(
        "SELECT v FROM s WHERE k IN (SELECT k FROM t GROUP BY k HAVING max(x) > 3)", CATALOG
    ).stages
    assert table.sql.endswith("GROUP BY _k0")
    assert "LEFT SEMI JOIN (SELECT _k0 AS sub_query_value" in source.sql


def test_a_star_has_no_columns_of_sub_queries() -> None:
    draft = draft_of("SELECT *, (SELECT max(x) FROM t) AS m FROM s WHERE k IN (SELECT k FROM t)", CATALOG)
    assert [column.name for column in draft.columns] == ["ts", "k", "v", "g", "m"]


def test_a_star_has_the_columns_of_a_table_of_any_name() -> None:
    draft = draft_of("SELECT * FROM s JOIN small AS sub_query_value_1 USING (k)", CATALOG)
    assert [column.name for column in draft.columns] == ["k", "ts", "v", "g", "x"]


def test_values_are_there_before_rows_are_grouped() -> None:
    text = "SELECT k, count(*) AS n FROM s WHERE v > (SELECT max(x) FROM t) GROUP BY k, window(ts, '1 minute')"
    assert [stage.kind for stage in draft_of(text, CATALOG).stages] == [
        StageKind.TABLE,
        StageKind.SOURCE,
        StageKind.MERGE,
    ]


def test_over_tables_the_query_runs_as_it_is_written() -> None:
    draft = draft_of("SELECT k, x > (SELECT avg(x) FROM t) AS dear FROM t", CATALOG)
    assert draft.whole is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT v, (SELECT x FROM t WHERE t.k = 1) AS x FROM s", "must aggregate one table"),
        ("SELECT v, (SELECT max(x), min(x) FROM t) AS x FROM s", "needs one column"),
        ("SELECT v, (SELECT max(x) FROM t WHERE t.x > s.v) AS x FROM s", "by = alone"),
        ("SELECT v, (SELECT max(x + v) FROM t) AS x FROM s", "of the table alone"),
        ("SELECT v, (SELECT size(collect_set(x)) FROM t WHERE t.k = s.k) AS x FROM s", "collect_set of the rows that"),
        ("SELECT v, (SELECT k + max(x) FROM t WHERE t.k = s.k) AS x FROM s", "k is not in an aggregate"),
        ("SELECT v, (SELECT max(x) FROM t WHERE s.k = 1) AS x FROM s", "by = alone"),
        ("SELECT v, (SELECT max(x) + (SELECT min(x) FROM t) FROM t) AS x FROM s", "must aggregate one table"),
        ("SELECT v, (SELECT max(x) FROM t GROUP BY k) AS x FROM s", "must aggregate one table"),
        ("SELECT v, (SELECT max(x) FROM t) FROM s", "needs a name"),
        ("SELECT v FROM s WHERE v > (SELECT max(v) FROM s)", "needs a window"),
        (
            "SELECT k, count(*) AS n FROM s GROUP BY k, window(ts, '1 hour') HAVING count(*) > (SELECT max(x) FROM t)",
            "in the select list and in WHERE",
        ),
        (
            "SELECT s.k FROM s JOIN s AS b ON s.k = b.k AND b.ts BETWEEN s.ts AND s.ts + INTERVAL '1 hour' "
            "WHERE s.v > (SELECT max(x) FROM t)",
            "cannot be joined to joined streams yet",
        ),
        ("SELECT v FROM s JOIN (SELECT k, x FROM t ORDER BY x LIMIT 3) AS q ON q.k = s.k", "more than group one table"),
        (
            "SELECT v FROM s JOIN (SELECT t.k, max(t.x) AS m FROM t JOIN t AS b ON t.k = b.k GROUP BY t.k) AS q "
            "ON q.k = s.k",
            "more than group one table",
        ),
    ],
)
def test_what_is_not_possible_is_refused_with_its_place(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)
