"""Catalogs, queries and topologies for the planner's tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from planner.graph.plan import DraftPlan
from planner.planning import draft_query
from planner.relations.catalog import Catalog, Column, Relation, RelationKind
from planner.sql import CreateRelation, CreateView, SelectQuery, parse_script
from planner.values.errors import PlannerError, UnsupportedSqlError
from planner.values.topology import Link, Site, Topology

DECLARATIONS = """
CREATE STREAM clicks (
  user_id BIGINT, page STRING, amount DECIMAL(10,2), ms INT, tags ARRAY<STRING>,
  geo STRUCT<city:STRING,lat:DOUBLE>, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
) WITH ('connector' = 'other') AT us AT eu AT ap;
CREATE STREAM visits (ts TIMESTAMP, page STRING, WATERMARK FOR ts) AT us WITH ('connector' = 'other');
CREATE TABLE pages (page STRING, topic STRING, weight INT) AT us WITH ('connector' = 'other');
CREATE TABLE users (user_id BIGINT, name STRING) WITH ('connector' = 'other') AT us AT eu;
"""


def catalog_of(script: str = DECLARATIONS, catalog: Catalog | None = None) -> Catalog:
    """The catalog after the script, types of views' columns unknown."""
    known = catalog or Catalog()
    for statement in parse_script(script):
        if isinstance(statement, CreateRelation):
            known = with_relation(known, statement.relation)
        elif isinstance(statement, CreateView):
            known = with_relation(known, view_of(statement, known))
    return known


def assert_refused(text: str, message: str, catalog: Catalog) -> None:
    """Assert that the planner refuses a query with this message, its place and a hint."""
    with pytest.raises(PlannerError, match=message) as caught:
        draft_of(text, catalog)
    assert caught.value.position is not None
    assert caught.value.hint


def with_relation(catalog: Catalog, relation: Relation) -> Catalog:
    return replace(catalog, relations={**catalog.relations, relation.name.lower(): relation})


def view_of(statement: CreateView, catalog: Catalog) -> Relation:
    found = draft_query(statement.query, catalog).columns
    names = statement.columns or tuple(column.name for column in found)
    columns = tuple(Column(name, "") for name in names)
    return Relation(statement.name, RelationKind.VIEW, columns, (), definition=statement.query.text)


CATALOG = catalog_of()


def select_of(sql: str) -> SelectQuery:
    (statement,) = parse_script(sql)
    assert isinstance(statement, SelectQuery)
    return statement


def draft_of(sql: str, catalog: Catalog = CATALOG, *, parts: int = 1) -> DraftPlan:
    return draft_query(select_of(sql), catalog, parts=parts)


def known_names(draft: DraftPlan) -> DraftPlan:
    """The draft; raises what is wrong with a name, which Spark would refuse when it is asked about the whole query."""
    if draft.whole is not None and not isinstance(draft.whole.refusal, UnsupportedSqlError):
        raise draft.whole.refusal
    return draft


def columns(text: str) -> tuple[Column, ...]:
    """Columns from `name TYPE, name TYPE`."""
    return tuple(Column(*part.split(maxsplit=1)) for part in text.split(", "))


def topology_of(
    *names: str, gateway: str | None = None, links: dict[tuple[str, str], tuple[float, int]] | None = None
) -> Topology:
    """All links 1 MB/s and 10 ms, but for those given as (bytes/s, ms)."""
    figures = {(a, b): (1e6, 10) for a in names for b in names if a != b} | (links or {})
    return Topology(
        sites={name: Site(name) for name in names},
        links={(a, b): Link(a, b, rate, timedelta(milliseconds=ms)) for (a, b), (rate, ms) in figures.items()},
        gateway=gateway or names[0],
    )
