"""Temporary views in the plans that read them."""

from __future__ import annotations

import pytest
from pyspark.sql.connect import proto as pb

from contract.client_plans import named_references, tables_named
from master.base.errors import LimitExceededError
from master.connect.plans import PLAN_BYTES, checked, client_query, label_of, plain
from planner.values.errors import UnsupportedSqlError


def table(name: str) -> pb.Relation:
    return pb.Relation(read=pb.Read(named_table=pb.Read.NamedTable(unparsed_identifier=name)))


def sql(text: str) -> pb.Relation:
    return pb.Relation(sql=pb.SQL(query=text))


VIEWS = {"v": pb.Relation(limit=pb.Limit(input=table("t"), limit=3))}


def test_a_name_becomes_the_view_under_that_name() -> None:
    found = checked(pb.Relation(filter=pb.Filter(input=table("`V`"))), VIEWS)
    assert found.filter.input.subquery_alias.alias == "V"
    assert found.filter.input.subquery_alias.input == VIEWS["v"]
    assert list(tables_named(found)) == ["t"]


def test_a_text_gets_its_views_beside_it_once() -> None:
    found = checked(pb.Relation(limit=pb.Limit(input=sql("SELECT * FROM v AS a, V AS b"))), VIEWS)
    beside = found.limit.input.with_relations
    assert beside.root == sql("SELECT * FROM v AS a, V AS b")
    assert [reference.subquery_alias.alias for reference in beside.references] == ["v"]
    assert named_references(found) == {"v"}


def test_views_stand_beside_what_a_text_has_already() -> None:
    frame = pb.Relation(subquery_alias=pb.SubqueryAlias(input=table("u"), alias="f"))
    given = pb.Relation(with_relations=pb.WithRelations(root=sql("SELECT * FROM v, f"), references=[frame]))
    found = checked(given, VIEWS).with_relations
    assert found.root == sql("SELECT * FROM v, f")
    assert [reference.subquery_alias.alias for reference in found.references] == ["f", "v"]


def test_without_views_a_plan_is_as_it_was() -> None:
    assert checked(sql("SELECT 1"), VIEWS) == sql("SELECT 1")
    assert checked(table("t"), {}) == table("t")


def test_what_is_not_possible_or_too_large() -> None:
    with pytest.raises(UnsupportedSqlError):
        checked(pb.Relation(catalog=pb.Catalog()), VIEWS)
    large = {"v": pb.Relation(local_relation=pb.LocalRelation(data=b"x" * (PLAN_BYTES // 2)))}
    both = pb.Relation(join=pb.Join(left=table("v"), right=table("v")))
    with pytest.raises(LimitExceededError):
        checked(both, large)


def test_what_the_planner_gets() -> None:
    query = client_query(pb.Relation(join=pb.Join(left=table("t"), right=sql("SELECT 1"))), {"a": "1"}, "eu")
    assert (query.names, query.texts, query.local) == (("t",), ("SELECT 1",), frozenset())
    assert (query.plan.settings, query.plan.site) == ({"a": "1"}, "eu")


def test_labels() -> None:
    assert label_of(pb.Relation(show_string=pb.ShowString(input=sql("SELECT 1")))) == "SELECT 1"
    counted = pb.Relation(aggregate=pb.Aggregate(input=pb.Relation(filter=pb.Filter(input=table("t")))))
    assert label_of(counted) == "-- a Spark client's plan: aggregate < filter < read; reads t"
    assert plain(" `T` ") == "t"
