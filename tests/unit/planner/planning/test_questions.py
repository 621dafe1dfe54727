from __future__ import annotations

import pytest

from planner.graph.plan import Analysis
from planner.planning import draft_query
from planner.planning.drafts import with_columns
from planner.planning.questions import analyses_of_combines, analysis_of_query, analysis_of_stage, invalid_expression
from planner.relations.catalog import Column
from planner.sql import SelectQuery, parse_script
from planner.values.errors import Position
from tests.unit.planner.build import CATALOG, columns, draft_of, select_of

CLICKS = CATALOG.relations["clicks"].columns
PAGES = columns("page STRING, topic STRING, weight INT")
SITE = Column("site", "STRING")
SQL = (
    "SELECT p.topic, avg(amount) AS a FROM clicks c JOIN pages p USING (page) WHERE c.site = 'us' "
    "GROUP BY window(ts, '1 day'), p.topic"
)
T1 = columns("page STRING, topic STRING")
S1 = columns("_window_start TIMESTAMP, _k0 STRING, _p0 DECIMAL(20,2), _p1 BIGINT, _bin BIGINT")


def test_the_query_is_checked_over_the_relations_columns() -> None:
    assert analysis_of_query(draft_of(SQL), CATALOG) == Analysis({"clicks": (*CLICKS, SITE), "pages": PAGES}, SQL)


@pytest.mark.parametrize(
    ("sql", "clicks_has", "pages_has"),
    [
        ("SELECT c.* FROM clicks c JOIN pages p USING (page)", False, False),
        ("SELECT site FROM clicks c JOIN pages p USING (page)", True, False),
        ("SELECT p.site FROM clicks c JOIN pages p USING (page)", False, True),
        ("SELECT c.site, p.site AS x FROM clicks c JOIN pages p USING (page)", True, True),
        ("SELECT c.ms FROM clicks c JOIN pages p USING (page, site)", True, True),
    ],
)
def test_site_is_a_column_only_where_it_is_named(sql: str, clicks_has: bool, pages_has: bool) -> None:
    views = analysis_of_query(draft_of(sql), CATALOG).views
    assert (SITE in views["clicks"], SITE in views["pages"]) == (clicks_has, pages_has)


def test_qualify_is_checked_with_the_merge() -> None:
    head = "SELECT count(*) AS n FROM clicks GROUP BY window(ts, '1 day')"
    draft = draft_of(f"{head}\n QUALIFY rank() OVER (PARTITION BY window ORDER BY n) = 1")
    assert analysis_of_query(draft, CATALOG).statement == head


def test_stages_are_checked_over_what_they_read() -> None:
    draft = draft_of(SQL)
    known: dict[str, tuple[Column, ...]] = {}
    assert analysis_of_stage(draft, "t1", known) == Analysis({"input": (*T1, SITE)}, "SELECT page, topic FROM input")
    known["t1"] = T1
    source = analysis_of_stage(draft, "s1", known)
    assert source.views == {"t1": T1, "input": (*columns("page STRING, amount DECIMAL(10,2), ts TIMESTAMP"), SITE)}
    assert source.statement == draft.stage("s1").sql
    known["s1"] = S1
    merge = analysis_of_stage(draft, "m1", known)
    assert merge.views == {"input": S1[:-1]}
    assert "CAST(try_divide(CAST(sum(_p0) AS DECIMAL(20,2)), sum(_p1)) AS DECIMAL(14,6))" in merge.statement
    (combine,) = analyses_of_combines(draft, "m1", known)
    assert combine.views == merge.views
    assert "CAST(sum(_p0) AS DECIMAL(20,2)) AS _p0" in combine.statement
    assert analyses_of_combines(draft, "s1", known) == ()


def test_types_are_put_in_and_the_bin_left_out() -> None:
    known = {"t1": T1, "s1": S1, "m1": columns("topic STRING, a DECIMAL(14,6)")}
    typed = with_columns(draft_of(SQL), known, columns("topic STRING, a DECIMAL(14,6)"))
    assert typed.columns == columns("topic STRING, a DECIMAL(14,6)")
    assert typed.stage("s1").columns == S1[:-1]
    merge = typed.stage("m1").merge
    assert merge is not None
    assert "CAST(sum(_p0) AS DECIMAL(20,2)) AS _p0" in merge.combine_sql
    assert "AS typed" not in typed.stage("m1").sql


def test_a_result_of_another_type_is_cast_to_that_of_the_query() -> None:
    known = {"t1": T1, "s1": S1, "m1": columns("topic STRING, a DECIMAL(15,7)")}
    typed = with_columns(draft_of(SQL), known, columns("topic STRING, a DECIMAL(14,6)"))
    stage = typed.stage("m1")
    assert stage.sql.startswith("SELECT topic, CAST(a AS DECIMAL(14,6)) AS a FROM (SELECT ")
    assert stage.columns == columns("topic STRING, a DECIMAL(14,6)")


def test_types_go_by_name_when_spark_has_more_columns() -> None:
    draft = draft_of("SELECT site, v.* FROM visits v")
    found = columns("site STRING, ts TIMESTAMP, page STRING, site STRING")
    typed = with_columns(draft, {"s1": columns("site STRING, ts TIMESTAMP, page STRING")}, found)
    assert typed.columns == columns("site STRING, ts TIMESTAMP, page STRING")


@pytest.mark.parametrize(
    ("line", "column", "fragment", "position"),
    [
        (1, 8, "nope(page)", Position(2, 11)),
        (2, 2, "ms + 'x'", Position(3, 2)),
        (0, 0, "", Position(2, 4)),
        # A place in a stage's SQL: the fragment is looked for in the query.
        (1, 99, "NOPE(page)", Position(2, 11)),
        (1, 1, "input.page", Position(2, 4)),
    ],
)
def test_sparks_place_becomes_one_of_the_script(line: int, column: int, fragment: str, position: Position) -> None:
    _, select = parse_script("SHOW SITES;\n   SELECT nope(page),\n ms + 'x' FROM clicks")
    assert isinstance(select, SelectQuery)
    error = invalid_expression(select, line=line, column=column, message="no", fragment=fragment)
    assert (error.code, error.position, error.found, error.message) == ("INVALID_EXPRESSION", position, fragment, "no")


def test_the_callers_values_are_not_changed() -> None:
    select = select_of(SQL)
    before = repr(select.tree)
    draft_query(select, CATALOG)
    draft_query(select, CATALOG)
    assert repr(select.tree) == before
