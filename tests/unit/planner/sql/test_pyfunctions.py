"""Definitions of Python functions, and calls of them in queries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.graph.plan import Statistics
from planner.place.placement import place
from planner.planning import draft_query
from planner.planning.drafts import with_columns
from planner.planning.questions import (
    analyses_of_union,
    analyses_of_views,
    analysis_of_query,
    analysis_of_stage,
    analysis_of_view,
)
from planner.relations.catalog import Binding, Catalog, Column, Function, Relation, RelationKind
from planner.sql import CreateFunction, DescribeFunction, DropFunction, SelectQuery, Show, ShowTarget, parse_script
from planner.sql.pyfunctions import MODULE_LIMIT_BYTES, checked_function
from planner.text.explain import explain_json
from planner.text.logical import logical_lines
from planner.values.errors import InvalidFunctionError, PlannerError, Position
from planner.values.topology import Site, Topology
from tests.unit.planner.build import catalog_of

SOURCE = "import pyarrow as pa\n\ndef cell(lat, size=10):\n    return str(lat)\n"
CELL = Function("Cell", (Column("lat", "double"), Column("size", "int")), "string", "cell", "geo.py", SOURCE)
START = Position(1, 1)

CLICKS = Relation(
    "clicks",
    RelationKind.STREAM,
    (Column("lat", "DOUBLE"), Column("page", "STRING"), Column("ts", "TIMESTAMP")),
    (Binding("us", {"connector": "generator"}),),
    event_time="ts",
)
PAGES = Relation("pages", RelationKind.TABLE, (Column("page", "STRING"), Column("topic", "STRING")), CLICKS.bindings)
CHECKED = checked_function(CELL)
CATALOG = Catalog({"clicks": CLICKS, "pages": PAGES}, {"cell": CHECKED})


def select(text: str) -> SelectQuery:
    (statement,) = parse_script(text)
    assert isinstance(statement, SelectQuery)
    return statement


class TestDefinition:
    def test_types_are_normalised_and_the_version_follows_from_everything(self) -> None:
        assert [p.type for p in CHECKED.parameters] == ["DOUBLE", "INT"]
        assert CHECKED.versioned_name.startswith("cell__")
        others = [
            replace(CELL, source=SOURCE + "\n"),
            replace(CELL, returns="BINARY"),
            replace(CELL, parameters=(CELL.parameters[0], Column("size", "BIGINT"))),
        ]
        assert len({checked_function(f).versioned_name for f in (CELL, *others)}) == 4
        assert checked_function(CHECKED) == CHECKED

    @pytest.mark.parametrize(
        ("annotations", "vectorised"),
        [
            ("lat: pa.Array", True),
            ("lat: Annotated[pyarrow.Array, 'INT']", True),
            ("lat: float", False),
            ("lat", False),
        ],
    )
    def test_arrays_are_told_by_annotations(self, annotations: str, vectorised: bool) -> None:
        function = replace(CELL, parameters=CELL.parameters[:1], source=f"def cell({annotations}): return lat")

        assert checked_function(function).vectorised is vectorised

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"name": "9lives"}, "cannot have this name"),
            ({"name": "select"}, "cannot have this name"),
            ({"name": "sum"}, "name of a function of Spark"),
            ({"name": "Cast"}, "name of a function of Spark|cannot have this name"),
            ({"returns": "VARCHAR(3)"}, "there is no type VARCHAR"),
            ({"returns": ""}, "a type is missing"),
            ({"returns": "INT INT"}, "should end here"),
            ({"parameters": ()}, "1 to 64 parameters"),
            ({"parameters": (Column("a", "INT"), Column("A", "INT"))}, "two parameters are called a"),
            ({"parameters": (Column("a", "INT"),) * 3}, "two parameters"),
            ({"source": "def cell(:"}, "geo.py:1 is not Python"),
            ({"source": "\0"}, "geo.py.* is not Python"),
            ({"source": "x" * (MODULE_LIMIT_BYTES + 1)}, f"has {MODULE_LIMIT_BYTES + 1} bytes"),
            ({"source": "def other(a): pass"}, "defines no function cell"),
            ({"source": "def cell(a): pass"}, "geo.py:1 takes 1 arguments by place, not 2"),
            ({"source": "def cell(a, b, *, c): pass"}, "by place, not 2"),
            ({"source": "async def cell(a, b): pass"}, "coroutine or generator"),
            ({"source": "def cell(a, b):\n  yield a"}, "coroutine or generator"),
            ({"source": "def cell(a: pa.Array, b: int): pass"}, "takes arrays and values"),
        ],
    )
    def test_what_is_wrong_is_said(self, changes: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidFunctionError, match=message):
            checked_function(replace(CELL, **changes))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("(" * 50_000, "is not Python"),
            ("1" + "+1" * 60_000, "is not Python"),
            (f"def cell(a: {'-' * 2000}1, b: int): pass", "geo.py:1 is nested too deeply"),
        ],
    )
    def test_nesting_without_end_is_refused(self, source: str, message: str) -> None:
        with pytest.raises(InvalidFunctionError, match=message):
            checked_function(replace(CELL, source=source))


class TestStatements:
    def test_create(self) -> None:
        text = (
            "CREATE OR REPLACE FUNCTION cell(lat DOUBLE, size INT) RETURNS STRING\n"
            "LANGUAGE PYTHON DETERMINISTIC AS 'cell' FROM 'geo.py'"
        )
        parameters = (Column("lat", "DOUBLE"), Column("size", "INT"))
        assert parse_script(text) == (
            CreateFunction("cell", parameters, "STRING", "cell", "geo.py", True, False, START),
        )

    def test_the_others(self) -> None:
        assert parse_script("DROP FUNCTION IF EXISTS cell; DESC FUNCTION cell; SHOW FUNCTIONS") == (
            DropFunction("cell", True, START),
            DescribeFunction("cell", Position(1, 31)),
            Show(ShowTarget.FUNCTIONS, Position(1, 51)),
        )

    @pytest.mark.parametrize(
        ("text", "code", "column"),
        [
            ("CREATE FUNCTION f() RETURNS INT", "SYNTAX_ERROR", 19),
            ("CREATE OR REPLACE STREAM f", "SYNTAX_ERROR", 19),
            ("CREATE OR REPLACE FUNCTION IF NOT EXISTS f(a INT)", "SYNTAX_ERROR", 42),
            ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE JAVA", "SYNTAX_ERROR", 38),
            ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON NOT DETERMINISTIC AS 'f'", "UNSUPPORTED_SQL", 54),
            ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS f FROM 'x.py'", "SYNTAX_ERROR", 57),
        ],
    )
    def test_what_is_wrong_has_its_place(self, text: str, code: str, column: int) -> None:
        with pytest.raises(PlannerError) as caught:
            parse_script(text)

        assert (caught.value.code, caught.value.position) == (code, Position(1, column))


class TestCalls:
    def test_stages_call_the_version_and_analysis_knows_the_function(self) -> None:
        text = (
            "SELECT CELL(lat, 1) AS c, max(cell(lat, 2)) AS m FROM clicks WHERE cell(lat, 3) <> 'x' "
            "GROUP BY cell(lat, 1), window(ts, '1 second') HAVING cell(max(lat), 4) > 'a'"
        )
        draft = draft_query(select(text), CATALOG)
        version = CHECKED.versioned_name

        assert draft.functions == (CHECKED,)
        assert draft.stage("s1").sql.count(f"{version}(") == 3
        assert draft.stage("m1").sql.count(f"{version}(") == 1
        assert analysis_of_query(draft, CATALOG).functions == (CHECKED,)
        assert analysis_of_stage(draft, "s1", {}).functions == (CHECKED,)
        assert version not in "\n".join(logical_lines(draft.logical))
        plan = place(
            with_columns(draft, {}, ()),
            Topology({"us": Site("us", 1)}, {}, "us"),
            Statistics(),
            alive=frozenset(("us",)),
        )
        assert plan.functions == (CHECKED,)
        assert explain_json(plan)

    def test_functions_of_derived_tables_and_views_are_known(self) -> None:
        catalog = catalog_of("CREATE VIEW seen AS SELECT cell(lat, 1) AS c, ts FROM clicks", CATALOG)
        text = (
            "WITH d AS (SELECT c, ts FROM seen UNION ALL SELECT page, ts FROM clicks) "
            "SELECT c, count(*) AS n FROM d GROUP BY c, window(ts, '1 second')"
        )
        draft = draft_query(select(text), catalog)
        version = CHECKED.versioned_name

        assert draft.functions == (CHECKED,)
        assert [draft.stage(stage).sql.count(f"{version}(") for stage in ("s1", "s2", "m1")] == [1, 0, 0]
        (view,) = analyses_of_views(draft)
        assert analysis_of_view(draft, view, catalog, {}).functions == (CHECKED,)
        asked = analyses_of_union(draft, {})
        assert version in asked["u1.0"].statement
        assert {analysis.functions for analysis in asked.values()} == {(CHECKED,)}
        assert version not in "\n".join(logical_lines(draft.logical))

    def test_the_query_over_an_aggregate_can_call_them(self) -> None:
        text = (
            "SELECT cell(m, 1) AS c FROM (SELECT max(lat) AS m FROM clicks GROUP BY page, window(ts, '1 day')) AS d "
            "WHERE cell(m, 2) > 'a'"
        )
        draft = draft_query(select(text), CATALOG)

        assert draft.stage("m1").sql.count(f"{CHECKED.versioned_name}(") == 2
        assert "cell(m, 2) > 'a'" in "\n".join(logical_lines(draft.logical))

    @pytest.mark.parametrize(
        ("text", "stage", "calls"),
        [
            ("SELECT c.page FROM clicks c JOIN pages p ON c.page = p.page AND cell(c.lat, 1) = p.topic", "s1", 1),
            ("SELECT c.page FROM clicks c LEFT JOIN pages p ON cell(c.lat, 1) = p.topic", "s1", 1),
            ("SELECT c.page FROM clicks c LEFT JOIN pages p ON c.page = p.page AND cell(length(p.topic), 1) = 'a'",
             "t1", 1),
            ("SELECT c.page FROM clicks c JOIN pages p ON c.page = p.page AND cell(c.lat, length(p.topic)) = 'a'",
             "s1", 1),
            ("SELECT d.n FROM (SELECT cell(lat, 1) AS n FROM clicks) AS d JOIN pages p ON d.n = p.page", "s1", 2),
            ("SELECT count(*) FROM (SELECT cell(lat, 1) AS n, ts FROM clicks UNION ALL SELECT page, ts FROM clicks) d "
             "LEFT JOIN pages p ON d.n = p.page GROUP BY window(d.ts, '1 second')", "s1", 1),
        ],
    )  # fmt: skip
    def test_a_join_can_call_them(self, text: str, stage: str, calls: int) -> None:
        found = draft_query(select(text), CATALOG)

        assert found.stage(stage).sql.count(f"{CHECKED.versioned_name}(") == calls

    def test_other_queries_have_no_functions(self) -> None:
        assert draft_query(select("SELECT page FROM clicks"), CATALOG).functions == ()

    @pytest.mark.parametrize(
        ("text", "code", "column"),
        [
            ("SELECT page, cell(lat) AS c FROM clicks", "INVALID_EXPRESSION", 14),
            ("SELECT cell(lat, 1, 2) AS c FROM clicks", "INVALID_EXPRESSION", 8),
            ("SELECT cell(DISTINCT lat, 1) AS c FROM clicks", "UNSUPPORTED_SQL", 13),
            ("SELECT c.page FROM clicks c LEFT JOIN pages p ON c.page = p.page AND cell(c.lat, length(p.topic)) = 'a'",
             "UNSUPPORTED_SQL", 70),
            ("SELECT d.n FROM (SELECT lat + 1 AS n FROM clicks) AS d LEFT JOIN (SELECT length(page) AS l FROM pages) "
             "AS p ON d.n = p.l AND cell(d.n, p.l) = 'b'", "UNSUPPORTED_SQL", 126),
            ("SELECT c.n FROM (SELECT cell(lat) AS n FROM clicks) AS c", "INVALID_EXPRESSION", 25),
            ("SELECT cell(n) AS m FROM (SELECT count(*) AS n FROM clicks GROUP BY page, window(ts, '1 day')) AS d",
             "INVALID_EXPRESSION", 8),
        ],
    )  # fmt: skip
    def test_wrong_calls_have_their_place(self, text: str, code: str, column: int) -> None:
        with pytest.raises(PlannerError) as caught:
            draft_query(select(text), CATALOG)

        assert (caught.value.code, caught.value.position) == (code, Position(1, column))
