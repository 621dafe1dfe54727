"""The list of what a client's plan may have, against the messages of the protocol that is installed, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.connect import proto as pb

from contract.client_plans import (
    PACKAGE,
    eager_inputs,
    has_own_columns,
    named_references,
    parts,
    sql_texts,
    tables_named,
)
from planner.connect.allowed import ANALYSES, COMMANDS, EAGER, FIELDS, FUNCTIONS, OPERATORS, TABLE_FUNCTIONS
from planner.connect.verdicts import PlanPart, check_plan, refusal
from planner.functions.table import ALLOWED, NAMES, REFUSED
from planner.values.errors import UnsupportedSqlError


def below(descriptor: Any, seen: set[str]) -> Iterator[Any]:
    """The message and all that a plan may have below it."""
    if descriptor.full_name not in seen and descriptor.full_name.startswith(PACKAGE):
        seen.add(descriptor.full_name)
        yield descriptor
        for field in descriptor.fields:
            if field.message_type is not None:
                yield from below(field.message_type, seen)


MESSAGES = {d.full_name.removeprefix(PACKAGE): d for d in below(pb.Relation.DESCRIPTOR, set())}
FIELDS_OF_ALL = [(name, field.name) for name, descriptor in MESSAGES.items() for field in descriptor.fields]


def test_what_is_listed_is_of_the_protocol() -> None:
    assert FIELDS.keys() <= MESSAGES.keys()
    for name, fields in FIELDS.items():
        assert fields <= {field.name for field in MESSAGES[name].fields}, name
    relations = {field.name for field in pb.Relation.DESCRIPTOR.fields}
    assert relations >= EAGER
    assert {field.name for field in pb.Command.DESCRIPTOR.fields} >= COMMANDS
    assert {field.name for field in pb.AnalyzePlanRequest.DESCRIPTOR.fields} >= ANALYSES
    assert TABLE_FUNCTIONS - {"range"} <= NAMES
    assert not OPERATORS & set().union(*ALLOWED.values()) - {"in"}


@pytest.mark.parametrize(("message", "field"), FIELDS_OF_ALL)
def test_each_field(message: str, field: str) -> None:
    """Nothing but what is listed passes, whatever is below it."""
    listed = field in FIELDS.get(message, ())
    assert bool(refusal(PlanPart(message, field, "upper"))) is (not listed) or field == "function_name"


REFUSED_RELATIONS = sorted({field.name for field in pb.Relation.DESCRIPTOR.fields} - FIELDS["Relation"])


@pytest.mark.parametrize("kind", REFUSED_RELATIONS)
def test_each_relation_that_is_not_listed(kind: str) -> None:
    relation = pb.Relation()
    getattr(relation, kind).SetInParent()
    outer = pb.Relation(limit=pb.Limit(input=relation, limit=1))
    with pytest.raises(UnsupportedSqlError, match=f"Relation.{kind} is not possible"):
        check_plan(parts(outer))


REFUSED_EXPRESSIONS = sorted({field.name for field in pb.Expression.DESCRIPTOR.fields} - FIELDS["Expression"])


@pytest.mark.parametrize("kind", REFUSED_EXPRESSIONS)
def test_each_expression_that_is_not_listed(kind: str) -> None:
    expression = pb.Expression()
    getattr(expression, kind).SetInParent()
    deep = pb.Expression(alias=pb.Expression.Alias(expr=expression, name=["x"]))
    with pytest.raises(UnsupportedSqlError, match=f"Expression.{kind} is not possible"):
        check_plan(parts(pb.Relation(project=pb.Project(expressions=[deep]))))


@pytest.mark.parametrize("name", sorted(set().union(*REFUSED.values()) - FUNCTIONS))
def test_each_function_that_is_not_listed(name: str) -> None:
    for expression in (
        pb.Expression(unresolved_function=pb.Expression.UnresolvedFunction(function_name=name)),
        pb.Expression(call_function=pb.CallFunction(function_name=name.upper())),
    ):
        with pytest.raises(UnsupportedSqlError, match="cannot be called"):
            check_plan(parts(pb.Relation(project=pb.Project(expressions=[expression]))))


def test_fields_of_a_later_protocol_are_refused() -> None:
    later = pb.Relation.FromString(b"\xfa\xff\x03\x01x")
    with pytest.raises(UnsupportedSqlError, match="unknown"):
        check_plan(parts(pb.Relation(limit=pb.Limit(input=later, limit=1))))


def test_streams_and_files_have_hints() -> None:
    with pytest.raises(UnsupportedSqlError) as raised:
        check_plan(parts(pb.Relation(read=pb.Read(is_streaming=True))))
    assert "selat sql" in raised.value.hint
    with pytest.raises(UnsupportedSqlError) as raised:
        check_plan(parts(pb.Relation(read=pb.Read(data_source=pb.Read.DataSource(format="csv")))))
    assert "CREATE TABLE" in raised.value.hint


def test_names_and_texts_in_a_plan() -> None:
    table = pb.Relation(read=pb.Read(named_table=pb.Read.NamedTable(unparsed_identifier="t")))
    alias = pb.Relation(subquery_alias=pb.SubqueryAlias(input=table, alias="F"))
    text = pb.Relation(sql=pb.SQL(query="SELECT * FROM f"))
    both = pb.Relation(with_relations=pb.WithRelations(root=text, references=[alias]))
    assert list(tables_named(both)) == ["t"]
    assert list(sql_texts(both)) == ["SELECT * FROM f"]
    assert named_references(both) == {"f"}


def test_what_spark_runs_to_make_a_plan() -> None:
    table = pb.Relation(read=pb.Read(named_table=pb.Read.NamedTable(unparsed_identifier="t")))
    pivot = pb.Relation(aggregate=pb.Aggregate(input=table, pivot=pb.Aggregate.Pivot(col=pb.Expression())))
    shown = pb.Relation(show_string=pb.ShowString(input=pivot, num_rows=1))
    assert eager_inputs(shown) == [table, pivot]
    assert has_own_columns(shown)
    assert not has_own_columns(pb.Relation(show_string=pb.ShowString(input=table, num_rows=1)))
