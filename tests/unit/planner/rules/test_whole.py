"""Queries over tables that run whole: their stages, once Spark has said what their scans must deliver."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.graph.plan import DraftPlan
from planner.graph.whole import Scanned
from planner.planning import Part, Planning, Refusal
from planner.planning.drafts import with_texts
from planner.planning.questions import original_place
from planner.relations.catalog import Catalog, Function
from planner.rules.draft import with_scans
from planner.text.logical import logical_lines
from planner.values.errors import InvalidDefinitionError, InvalidExpressionError, PlannerError, UnsupportedSqlError
from planner.values.scans import SparkExpression, TableScan
from tests.unit.planner.build import catalog_of, columns, draft_of, select_of

CATALOG = catalog_of(
    """
    CREATE TABLE t (a INT, b INT, s STRING) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE u (a INT, d DATE) WITH ('connector' = 'other') AT us;
    CREATE TABLE input (a INT) WITH ('connector' = 'other') AT eu;
    CREATE STREAM clicks (a INT, ts TIMESTAMP, WATERMARK FOR ts) AT us WITH ('connector' = 'other');
    CREATE VIEW few AS SELECT a FROM t WHERE b > 1;
    CREATE VIEW fewer AS SELECT a FROM few WHERE a > 1
    """
)
RESULT = columns("a INT")


def over(name: str, *read: str, conditions: tuple[SparkExpression, ...] = ()) -> TableScan:
    return TableScan(name, read, conditions)


def is_(name: str, value: str, type_: str = "INT") -> SparkExpression:
    parts = (SparkExpression("AttributeReference", type_, name), SparkExpression("Literal", type_, value))
    return SparkExpression("EqualTo", "BOOLEAN", None, parts, f"({name} = {value})")


def whole(sql: str, *scans: TableScan, catalog: Catalog = CATALOG) -> DraftPlan:
    return with_texts(with_scans(draft_of(sql, catalog), Scanned(RESULT, scans)))


def sql_of(draft: DraftPlan) -> dict[str, str]:
    return {stage.id: stage.sql.replace("\n", " ") for stage in draft.stages}


def test_a_map_for_each_table_and_the_text_over_all_columns() -> None:
    text = "SELECT t.a FROM t RIGHT JOIN u ON t.a = u.a"
    draft = whole(text, over("t", "a", conditions=(is_("b", "1"),)), over("u", "a"))
    assert sql_of(draft) == {
        "map": "SELECT a FROM input WHERE input.b = 1",
        "map2": "SELECT a FROM input",
        "reduce": "WITH t AS (SELECT a, CAST(NULL AS INT) AS b, CAST(NULL AS STRING) AS s FROM input ), "
        f"u AS (SELECT a, CAST(NULL AS DATE) AS d FROM input2 ) ({text} )",
    }
    assert [(stage.relation, stage.read_columns, stage.pinned) for stage in draft.map_stages] == [
        ("t", ("a", "b"), ("eu", "us")),
        ("u", ("a",), ("us",)),
    ]
    assert logical_lines(draft.logical, draft.notes) == (
        "Whole[the query as it is written]",
        "  Project[a]",
        "    Filter[b = 1]",
        "      Scan[t at eu, us]",
        "  Project[a]",
        "    Scan[u at us]",
        "(it runs whole: in parts, RIGHT JOIN is not possible)",
    )


def conditioned(*conditions: SparkExpression, only: tuple[str, ...]) -> TableScan:
    return TableScan("t", ("a", "b", "s"), conditions, only_in_conditions=only)


def test_a_column_that_only_conditions_read_is_a_constant_that_fulfils_them() -> None:
    text = "SELECT a FROM t EXCEPT SELECT 1"
    draft = whole(text, conditioned(is_("b", "1"), is_("s", "x", "STRING"), only=("b", "s")))
    assert sql_of(draft) == {
        "map": "SELECT a FROM input WHERE input.b = 1 AND input.s = 'x'",
        "reduce": f"WITH t AS (SELECT a, CAST('1' AS INT) AS b, CAST('x' AS STRING) AS s FROM input ) ({text} )",
    }
    assert [scan.columns for scan in draft.scans] == [("a",)]
    assert draft.stage("map").read_columns == ("a", "b", "s")


OF_BOTH = replace(is_("a", "1"), arguments=tuple(SparkExpression("AttributeReference", "INT", n) for n in "ab"))
NOT_PUSHED = replace(
    is_("b", "1"), arguments=(SparkExpression("Nondeterministic", "INT"), *is_("b", "1").arguments[:1])
)


@pytest.mark.parametrize(
    "scans",
    [
        [conditioned(is_("b", "1"), only=())],
        # The row's own value of `a` has to be the value of `b`.
        [conditioned(OF_BOTH, is_("b", "1"), only=("b",))],
        [conditioned(NOT_PUSHED, only=("b",))],
        [conditioned(is_("b", "1"), is_("b", "2"), only=("b",))],
        # A row that one scan needs may not fulfil the other's conditions.
        [conditioned(is_("b", "1"), only=("b",)), conditioned(is_("b", "2"), only=("b",))],
        [conditioned(is_("b", "1"), only=("b",)), conditioned(only=("b",))],
        [conditioned(is_("b", "1"), only=("b",)), conditioned(is_("b", "1"), only=())],
    ],
)
def test_a_column_is_sent_where_no_constant_does(scans: list[TableScan]) -> None:
    draft = whole("SELECT a FROM t EXCEPT SELECT a FROM t", *scans)
    assert sql_of(draft)["map"].startswith("SELECT a, b, s FROM input")


def test_several_scans_with_the_same_conditions_have_the_same_constants() -> None:
    twice = [conditioned(is_("b", "1"), is_("a", n), only=("b",)) for n in "12"]
    draft = whole("SELECT a FROM t EXCEPT SELECT a FROM t", *twice)
    assert sql_of(draft)["map"] == "SELECT a, s FROM input WHERE input.b = 1 AND (input.a = 1 OR input.a = 2)"


def test_only_the_rows_count_where_conditions_alone_read_columns() -> None:
    scan = TableScan("t", ("b",), (is_("b", "1"),), only_in_conditions=("b",))
    draft = whole("SELECT count(*) AS a FROM t FULL JOIN u ON false", scan)
    assert sql_of(draft)["map"] == "SELECT 1 AS _one FROM input WHERE input.b = 1"


def test_several_scans_of_a_table_share_what_they_have_in_common() -> None:
    one, two = (is_("a", "1"), is_("s", "x", "STRING")), (is_("a", "1"), is_("b", "2"))
    text = "SELECT a FROM t EXCEPT SELECT a FROM t"
    draft = whole(text, over("t", "a", conditions=one), over("t", "b", conditions=two))
    assert sql_of(draft)["map"] == "SELECT a, b FROM input WHERE input.a = 1 AND (input.s = 'x' OR input.b = 2)"
    every = whole(text, over("t", "a", conditions=one), over("t", "a"))
    assert sql_of(every)["map"] == "SELECT a FROM input"


def test_equal_rows_are_sent_once_where_each_scan_says_so() -> None:
    text = "SELECT t.a FROM t LEFT SEMI JOIN u ON t.a = u.a"
    once = TableScan("t", ("a", "s"), (is_("b", "1"),), distinct=True)
    draft = whole(text, once, over("u", "a"))
    assert sql_of(draft)["map"] == "SELECT a, s FROM input WHERE input.b = 1 GROUP BY a, s"
    assert [scan.distinct for scan in draft.scans] == [True, False]
    both = whole(text, once, over("t", "a", "s"), over("u", "a"))
    assert [scan.distinct for scan in both.scans] == [False, False, False]
    assert (
        sql_of(whole(text, TableScan("t", (), distinct=True), over("u", "a")))["map"] == "SELECT 1 AS _one FROM input"
    )


def test_floats_are_sent_as_they_are() -> None:
    catalog = catalog_of("CREATE TABLE f (x DOUBLE) WITH ('connector' = 'other') AT us")
    draft = whole("SELECT x FROM f EXCEPT SELECT 1 AS x", TableScan("f", ("x",), distinct=True), catalog=catalog)
    assert sql_of(draft)["map"] == "SELECT x FROM input"


def test_a_table_that_is_not_scanned_has_no_rows() -> None:
    draft = whole("SELECT t.a FROM t CROSS JOIN u", over("u"))
    assert sql_of(draft)["map"] == "SELECT 1 AS _one FROM input"
    assert (
        "t AS (SELECT CAST(NULL AS INT) AS a, CAST(NULL AS INT) AS b, CAST(NULL AS STRING) AS s FROM input "
        in (sql_of(draft)["reduce"])
    )
    assert "FROM input WHERE FALSE )" in sql_of(draft)["reduce"]
    none = whole("SELECT t.a FROM t CROSS JOIN u")
    assert [stage.relation for stage in none.map_stages] == ["t"]


def test_an_agent_that_does_not_say_what_scans_need_gets_all_columns() -> None:
    draft = with_texts(with_scans(draft_of("SELECT t.a FROM t CROSS JOIN u", CATALOG), Scanned(RESULT, None)))
    assert sql_of(draft)["map"] == "SELECT a, b, s FROM input"
    assert sql_of(draft)["map2"] == "SELECT a, d FROM input"


def test_why_a_condition_is_kept_back() -> None:
    refused = SparkExpression("RLike", "BOOLEAN", None, (), "(s RLIKE 'x')")
    draft = whole("SELECT t.a FROM t CROSS JOIN u", over("t", "a", conditions=(refused, is_("a", "1"))), over("u"))
    (scan, _) = draft.scans
    assert scan.conditions == ("a = 1",)
    assert [(back.condition, back.reason) for back in scan.kept_back] == [
        ("(s RLIKE 'x')", "RLike is not known to succeed for every row")
    ]


def test_conditions_on_site_decide_where_a_table_is_read() -> None:
    text = "SELECT t.a FROM t CROSS JOIN u WHERE t.site = 'eu'"
    draft = whole(text, over("t", "a", "site", conditions=(is_("site", "eu", "STRING"),)), over("u"))
    assert draft.map_stages[0].pinned == ("eu",)
    assert draft.site_read == {"map"}
    assert (
        "t AS (SELECT a, CAST(NULL AS INT) AS b, CAST(NULL AS STRING) AS s, site FROM input )"
        in (sql_of(draft)["reduce"])
    )
    for star in ("SELECT *, t.site FROM t CROSS JOIN u", "SELECT t.site FROM t NATURAL JOIN u"):
        with pytest.raises(UnsupportedSqlError, match="beside site"):
            draft_of(star, CATALOG)


def test_a_table_may_have_the_name_of_a_view_of_ours() -> None:
    draft = whole("SELECT input.a FROM input CROSS JOIN t", over("input", "a"), over("t"))
    assert [item.view for item in draft.stage("reduce").inputs] == ["input_", "input2"]
    assert "input AS (SELECT a FROM input_ )" in sql_of(draft)["reduce"]


def test_views_are_defined_behind_the_tables_and_asked_with_the_text() -> None:
    text = "SELECT f.a\nFROM few AS f CROSS JOIN u"
    planning = Planning.of(select_of(text), CATALOG)
    assert [(question.part, question.name) for question in planning.questions] == [(Part.VIEW, "few")]
    planning = planning.answered(planning.questions[0], RESULT)
    (question,) = planning.questions
    assert question.analysis.scans
    assert set(question.analysis.views) == {"t", "u"}
    assert question.analysis.statement == f"WITH few(a) AS (SELECT a FROM t WHERE b > 1\n) ({text}\n)"
    assert original_place(question.analysis, text, 3, 6) == (2, 6)
    planning = planning.answered(question, Scanned(RESULT, (over("t", "a"), over("u"))))
    reduce = sql_of(planning.draft)["reduce"]
    assert reduce.index("u AS (") < reduce.index("few(a) AS (SELECT a FROM t WHERE b > 1 )")


def test_a_view_comes_after_those_that_it_uses_wherever_they_are_named() -> None:
    draft = draft_of("SELECT f.a FROM few AS f RIGHT JOIN fewer AS g ON f.a = g.a", CATALOG)
    assert [text.view for text in draft.texts] == ["few", "fewer", ""]
    assert draft.whole is not None
    assert [view.name for view in draft.whole.views] == ["few", "fewer"]


def test_what_a_stream_calls_a_column_is_no_call() -> None:
    catalog = catalog_of(
        "CREATE STREAM s (user STRING, ts TIMESTAMP, WATERMARK FOR ts) AT us WITH ('connector' = 'other');"
        "CREATE TABLE t (user STRING) AT us WITH ('connector' = 'other')"
    )
    with pytest.raises(UnsupportedSqlError, match="CLUSTER BY"):
        draft_of("SELECT user FROM s CLUSTER BY user", catalog)
    with pytest.raises(UnsupportedSqlError, match="Spark would take it for the function"):
        draft_of("SELECT user FROM t EXCEPT SELECT 'x' AS user FROM t", catalog)
    assert draft_of("SELECT t.user FROM t EXCEPT SELECT 'x' AS user FROM t", catalog).whole is not None


def test_python_functions_are_called_by_version_and_columns_keep_their_names() -> None:
    function = Function("twice", columns("x INT"), "INT", "twice", "f.py", "", digest="0123456789abcdef")
    catalog = replace(CATALOG, functions={"twice": function})
    draft = whole("SELECT twice(t.a) FROM t CROSS JOIN u", over("t", "a"), over("u"), catalog=catalog)
    assert draft.functions == (function,)
    assert "named(a) AS (SELECT twice__0123456789ab(t.a) FROM t CROSS JOIN u )" in sql_of(draft)["reduce"]
    assert sql_of(draft)["reduce"].endswith("(SELECT * FROM named )")


@pytest.mark.parametrize(
    ("sql", "column", "found"),
    [
        ("SELECT a FROM t WHERE a IN (SELECT a FROM nothing)", 43, "nothing"),
        ("WITH x AS (SELECT a FROM u) SELECT a FROM t RIGHT JOIN y USING (a)", 56, "y"),
        ("SELECT a FROM t WHERE a IN (SELECT now() FROM u)", 36, "now"),
        ("SELECT a FROM t WHERE a IN (SELECT nope(a) FROM u)", 36, "nope"),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM clicks)", 36, "a FROM clicks"),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM u TABLESAMPLE (5 ROWS))", 43, "u TABLESAMPLE (5"),
    ],
)
def test_refusals_have_their_place(sql: str, column: int, found: str) -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of(sql, CATALOG)
    assert caught.value.position is not None
    assert (caught.value.position.column, caught.value.found) == (column, found)
    assert caught.value.hint


def test_spark_refuses_the_text_with_its_place() -> None:
    planning = Planning.of(select_of("SELECT a FROM t\nWHERE a IN (SELECT x FROM u)"), CATALOG)
    (question,) = planning.questions
    with pytest.raises(InvalidExpressionError) as caught:
        planning.answered(question, Refusal("no such column", 2, 20, "x"))
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column, caught.value.found) == (2, 20, "x")


def test_two_results_of_one_name() -> None:
    planning = Planning.of(select_of("SELECT t.a, u.a FROM t RIGHT JOIN u ON t.a = u.a"), CATALOG)
    with pytest.raises(InvalidDefinitionError, match="two result columns are called a"):
        planning.answered(planning.questions[0], Scanned(columns("a INT, A INT"), ()))


def test_a_query_of_which_spark_refuses_a_part_runs_whole() -> None:
    planning = Planning.of(select_of("SELECT b, max(a) AS m FROM t GROUP BY b"), CATALOG)
    assert planning.draft.whole is None
    text, stage = planning.questions
    planning = planning.answered(text, columns("b INT, m INT"))
    planning = planning.answered(stage, Refusal("not in parts"))
    (question,) = planning.questions
    assert question.analysis.scans
    planning = planning.answered(question, Scanned(columns("b INT, m INT"), (over("t", "a", "b"),)))
    while planning.questions:
        (question,) = planning.questions
        planning = planning.answered(question, columns("a INT, b INT" if question.name == "map" else "b INT, m INT"))
    assert planning.result().stage("reduce").columns == columns("b INT, m INT")
