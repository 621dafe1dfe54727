"""Vertices of queries over one small catalog, for the tests of sharing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.graph.ids import VertexId
from planner.graph.plan import DraftPlan, Stage
from planner.relations.catalog import Catalog, Column
from planner.sharing.containment import residual_of
from planner.sharing.vertices import Vertex, VertexKind, vertices_of
from planner.text.spark import spark_sql
from tests.unit.planner.build import catalog_of, draft_of

CATALOG = catalog_of(
    """
    CREATE STREAM s (ts TIMESTAMP, k INT, w STRING, v INT, d DOUBLE, WATERMARK FOR ts)
      WITH ('connector' = 'push') AT us AT eu AT ap;
    CREATE STREAM f (ts TIMESTAMP, k INT, v INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE STREAM o (ts TIMESTAMP, k INT, v INT, WATERMARK FOR ts) WITH ('connector' = 'other') AT us AT eu;
    CREATE TABLE t (k INT, name STRING, x INT) WITH ('connector' = 'other') AT us AT eu;
    """
)
GATEWAY = "us"


def vertices(
    sql: str | DraftPlan,
    catalog: Catalog = CATALOG,
    *,
    rates: Mapping[tuple[str, str], float] | None = None,
    owner: str = "q",
) -> dict[VertexId, Vertex]:
    """By id."""
    draft = draft_of(sql, catalog) if isinstance(sql, str) else sql
    relations = {relation.name: relation for relation in catalog.relations.values()}
    found = vertices_of(draft, relations, rates or {}, owner=owner, gateway=GATEWAY)
    return {vertex.id: vertex for vertex in found}


def residual_sql(wanted: Vertex, offered: Vertex) -> str | None:
    """SQL of what is left to do; None when one is not contained in the other."""
    made = residual_of(wanted, offered)
    return None if made is None else spark_sql(made)


def result_of(sql: str, catalog: Catalog = CATALOG) -> str:
    """The fingerprint of all that a query gives."""
    return "|".join(v.fingerprint for v in vertices(sql, catalog).values() if v.kind is VertexKind.RESULTS)


def typed(draft: DraftPlan, columns: Mapping[str, Sequence[tuple[str, str]]]) -> DraftPlan:
    """The draft with columns as Spark would find them, by stage."""

    def change(stage: Stage) -> Stage:
        found = columns.get(stage.id)
        return stage if found is None else replace(stage, columns=tuple(Column(*pair) for pair in found))

    return replace(draft, stages=tuple(change(stage) for stage in draft.stages))
