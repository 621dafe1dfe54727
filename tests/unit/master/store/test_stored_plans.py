"""What is stored of operators comes back equal, for all kinds of queries."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from master.store import codec
from planner.graph.operators import Operator, walk
from planner.graph.plan import Stage
from planner.graph.stored import loaded_expression, stored_expression
from planner.graph.whole import Scanned
from planner.planning.drafts import with_texts
from planner.relations.catalog import Column
from planner.rules.draft import with_scans
from planner.sql.dialect import parse_template
from planner.text.spark import spark_sql
from tests.unit.planner.test_composition import AGGREGATES, FORMS, TOP_K
from tests.unit.planner.test_window_rows import JOINS, ROLLUPS, UNIONS, draft

QUERIES = {**FORMS, **AGGREGATES, **JOINS, **ROLLUPS, **UNIONS, "top k": TOP_K}
OF_TABLES = """
SELECT t.name, count(*) AS n FROM t LATERAL VIEW explode(split(name, ' ')) v AS word
WHERE k > 1 GROUP BY t.name ORDER BY n DESC LIMIT 3
"""


WHOLE = "SELECT name FROM t WHERE k IN (SELECT max(k) FROM t)"


def stages_of(sql: str) -> tuple[Stage, ...]:
    found = draft(sql)
    if found.whole is not None:
        found = with_texts(with_scans(found, Scanned((Column("name", "STRING"),), None)))
    return found.stages


@pytest.mark.parametrize("sql", [*QUERIES.values(), OF_TABLES, WHOLE])
def test_stages_come_back_equal(sql: str) -> None:
    for stage in (*stages_of(sql), *draft(sql, parts=3).stages):
        loaded = codec.loads(Stage, codec.dumps(stage))
        assert loaded == stage
        assert loaded.body is not None
        assert spark_sql(loaded.body) == stage.sql


def test_a_stage_of_before_there_were_parts_has_one() -> None:
    merge = draft(TOP_K).stages[-1]
    stored = json.loads(codec.dumps(merge))
    del stored["parts"]
    assert codec.loads(Stage, json.dumps(stored)) == merge


@pytest.mark.parametrize(
    "sql",
    [
        "CAST(x AS DECIMAL(10, 2)) + 1.50",
        "CASE WHEN a IS NULL OR NOT b LIKE 'x%' THEN -1 ELSE EXTRACT(DAY FROM ts) END",
        "transform(list, x -> x + 1)[0]",
        "count(DISTINCT a, b) FILTER (WHERE a > 2)",
        "row_number() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST)",
        "ts + INTERVAL '2' SECOND",
        "named_struct('a', x.`odd name`, 'b', 'it''s').a",
    ],
)
def test_expressions_come_back_equal(sql: str) -> None:
    tree = parse_template(f"SELECT {sql}")
    assert tree is not None
    node = tree.expressions[0]
    loaded = loaded_expression(json.loads(json.dumps(stored_expression(node))))
    assert loaded == node
    assert loaded.sql() == node.sql()


@pytest.mark.parametrize("name", ["Nothing", "parse", "Expression.__init__", "DataType.Type"])
def test_only_classes_of_expressions_are_made(name: str) -> None:
    with pytest.raises(ValueError, match="no expression of the class"):
        loaded_expression({"": name})


def test_all_operators_are_in_these_queries() -> None:
    found = set()
    for stage in (stage for sql in (*QUERIES.values(), OF_TABLES, WHOLE) for stage in stages_of(sql)):
        bodies = [stage.body, *([stage.merge.combine] if stage.merge is not None else [])]
        found |= {type(operator) for body in bodies if body is not None for operator in walk(body)}
    assert found == set(get_args(Operator))
