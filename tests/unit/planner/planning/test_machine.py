"""The way of a query to a draft with types: what is asked when, and which of several refusals counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planner.graph.plan import DraftPlan
from planner.planning import Answer, Part, Planning, Question, Refusal, planned_with
from planner.relations.catalog import Catalog, Column
from planner.sql.script import parse_script
from planner.sql.statements import InsertInto
from planner.values.errors import InvalidDefinitionError, InvalidExpressionError
from planner.values.stages import StageKind
from tests.unit.planner.build import catalog_of, columns, select_of

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k STRING, v INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE SINK daily (k STRING, n BIGINT) AT eu WITH ('connector' = 'parquet', 'path' = '/out');
    CREATE VIEW rows AS SELECT k, v FROM s WHERE v > 1;
    CREATE VIEW fewer AS SELECT k FROM rows
    """
)
COUNTS = "SELECT k, count(*) AS n FROM s GROUP BY window(ts, '10 seconds'), k"
PARTIALS = columns("window_start TIMESTAMP, _k0 STRING, _p0 BIGINT")
RESULT = columns("k STRING, n BIGINT")
NO = Refusal("no such function", 1, 8, "k")


def answer_of(question: Question) -> Answer:
    """As Spark says of COUNTS."""
    combines = question.part is Part.COMBINE
    return PARTIALS if combines or question.name == "s1" else RESULT


def asked(planning: Planning) -> list[tuple[str, str]]:
    return [(question.part.value, question.name) for question in planning.questions]


def question(planning: Planning, part: Part, name: str = "") -> Question:
    return next(q for q in planning.questions if (q.part, q.name) == (part, name))


def begun(sql: str = COUNTS, catalog: Catalog = CATALOG) -> Planning:
    return Planning.of(select_of(sql), catalog)


def test_the_text_and_the_first_stages_are_asked_side_by_side_then_what_reads_them() -> None:
    planning = begun()
    assert asked(planning) == [("text", ""), ("stage", "s1")]
    planning = planning.answered(question(planning, Part.STAGE, "s1"), PARTIALS)
    assert asked(planning) == [("text", ""), ("stage", "m1"), ("combine", "m1 0")]
    while planning.questions:
        planning = planning.answered(planning.questions[-1], answer_of(planning.questions[-1]))
    assert planning.result().columns == RESULT
    assert planning.result().stage("s1").columns == PARTIALS


def test_a_view_is_asked_after_those_that_it_uses_and_before_the_text() -> None:
    planning = begun("SELECT k FROM fewer")
    assert planning.views == {"rows", "fewer"}
    assert asked(planning)[0] == ("view", "rows")
    planning = planning.answered(question(planning, Part.VIEW, "rows"), columns("k STRING, v INT"))
    assert asked(planning)[0] == ("view", "fewer")
    planning = planning.answered(question(planning, Part.VIEW, "fewer"), columns("k STRING"))
    text = question(planning, Part.TEXT)
    assert text.analysis.views == {"fewer": columns("k STRING")}


@pytest.mark.parametrize("first", [Part.TEXT, Part.STAGE])
def test_a_refusal_of_the_text_counts_before_one_of_a_part(first: Part) -> None:
    planning = begun()
    text, stage = question(planning, Part.TEXT), question(planning, Part.STAGE, "s1")
    if first is Part.STAGE:
        planning = planning.answered(stage, NO)
        assert asked(planning) == [("text", "")]
    with pytest.raises(InvalidExpressionError, match=r"^no such function") as caught:
        planning.answered(text, NO)
    assert caught.value.found == "k"


def test_a_part_that_spark_refuses_is_told_once_the_text_is_right() -> None:
    planning = begun()
    text = question(planning, Part.TEXT)
    planning = planning.answered(question(planning, Part.STAGE, "s1"), NO).answered(text, RESULT)
    assert planning.questions == ()
    with pytest.raises(InvalidExpressionError, match="Spark refuses stage s1 of the plan: no such function"):
        planning.result()


def test_a_combine_has_to_keep_the_types_of_partials() -> None:
    def ask(question: Question) -> Answer:
        found = answer_of(question)
        if question.part is Part.COMBINE:
            return columns("window_start TIMESTAMP, _k0 STRING, _p0 DECIMAL(20,0)")
        return found

    planning = begun()
    while planning.questions:
        planning = planning.answered(planning.questions[0], ask(planning.questions[0]))
    with pytest.raises(InvalidExpressionError, match="partials of _p0 are BIGINT, but DECIMAL"):
        planning.result()


def test_nothing_is_planned_before_all_is_answered() -> None:
    with pytest.raises(ValueError, match="not answered all"):
        begun().result()


def test_an_insert_ends_in_its_sink() -> None:
    def insert(found: tuple[Column, ...]) -> DraftPlan:
        (statement,) = parse_script(f"INSERT INTO daily {COUNTS}")
        assert isinstance(statement, InsertInto)
        planning = Planning.of(statement.query, CATALOG, statement.target)
        assert planning.sink == CATALOG.find("daily")
        answers: Iterator[tuple[Column, ...]] = iter([found, PARTIALS, found, PARTIALS])
        return planned_with(planning, lambda _: next(answers))

    assert insert(RESULT).stages[-1].kind is StageKind.SINK
    with pytest.raises(InvalidDefinitionError, match="cannot go into column n BIGINT of sink daily"):
        insert(columns("k STRING, n STRING"))


def test_the_branches_of_a_union_are_asked_before_the_stages_that_cast_them() -> None:
    rows = "SELECT ts, k FROM s UNION ALL SELECT ts, k FROM s"
    planning = begun(f"SELECT k, count(*) AS n FROM ({rows}) GROUP BY k, window(ts, '1 hour')")
    unions = [name for part, name in asked(planning) if part == "union"]
    assert len(unions) == 3
    assert not [name for part, name in asked(planning) if part == "stage"]
    for name in unions:
        assert not [part for part, _ in asked(planning) if part == "stage"]
        planning = planning.answered(question(planning, Part.UNION, name), columns("ts TIMESTAMP, k STRING"))
    assert [part for part, _ in asked(planning) if part == "stage"]
