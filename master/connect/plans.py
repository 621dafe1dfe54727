"""Finds what a client's plan names, and makes the label that lists of queries show for it.

The session's views are put into the plan that reads them, under their names. So a plan means what its names meant when
it was sent, as in Spark, and nothing of a session has to be at a site.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from contract.client_plans import messages, name_of, named_references, parts, sql_texts, tables_named
from master.base.errors import LimitExceededError
from master.connect.arguments import with_values
from planner.connect.verdicts import check_plan
from planner.graph.clientplan import ClientPlan, ClientQuery

PLAN_BYTES = 16 * 1024 * 1024
"""The most that a plan may take with the views that it reads."""
_LABEL_CHARS = 2000


def client_query(relation: Any, settings: Mapping[str, str], site: str = "") -> ClientQuery:
    """A checked relation that reads no views of a session any more, as the planner takes it."""
    plan = ClientPlan(text_of(relation), settings=dict(settings), site=site)
    names, texts = dict.fromkeys(tables_named(relation)), dict.fromkeys(sql_texts(relation))
    return ClientQuery(plan, tuple(names), tuple(texts), named_references(relation))


def checked(relation: Any, views: Mapping[str, Any]) -> Any:
    """The relation with the arguments of its SQL texts and the session's views in it.

    Args:
        relation: a `spark.connect.Relation`.
        views: relations that were checked, by lower-case name.

    Raises:
        UnsupportedSqlError: a part of it is not possible.
        InvalidExpressionError: an argument of a SQL text is not possible, or is missing.
        LimitExceededError: it is too large with its views.
    """
    relation = with_values(relation)
    check_plan(parts(relation))
    found = type(relation)()
    found.CopyFrom(relation)
    relations: list[Any] = [below for below in messages(found) if name_of(below) == "Relation"] if views else []
    # The SQL text of such a relation is prepared with the relation.
    beside = {id(r.with_relations.root) for r in relations if r.WhichOneof("rel_type") == "with_relations"}
    for below in relations:
        if id(below) not in beside or below.WhichOneof("rel_type") != "sql":
            _put_views(below, views)
            if found.ByteSize() > PLAN_BYTES:
                raise LimitExceededError(
                    f"a plan may take {PLAN_BYTES} bytes with the temporary views that it reads",
                    hint="let a view hold fewer local rows",
                )
    return found


def text_of(relation: Any) -> str:
    """The relation as planner and agents carry it."""
    return base64.b64encode(relation.SerializeToString(deterministic=True)).decode()


def label_of(relation: Any) -> str:
    """Return what a list of queries shows: the plan's SQL text, or the plan's relations from the top down."""
    inner = relation
    while inner.WhichOneof("rel_type") in ("show_string", "html_string", "limit"):
        inner = getattr(inner, inner.WhichOneof("rel_type")).input
    if inner.WhichOneof("rel_type") == "sql":
        return str(inner.sql.query)[:_LABEL_CHARS]
    kinds = [below.WhichOneof("rel_type") or "" for below in messages(relation) if name_of(below) == "Relation"]
    tables = ", ".join(dict.fromkeys(tables_named(relation)))
    text = f"-- a Spark client's plan: {' < '.join(kinds)}" + (f"; reads {tables}" if tables else "")
    return text[:_LABEL_CHARS]


def plain(name: str) -> str:
    """A name as names are compared."""
    return name.strip().strip("`").lower()


def _put_views(relation: Any, views: Mapping[str, Any]) -> None:
    """Put views in the place of their names, in this one message."""
    kind = relation.WhichOneof("rel_type")
    if kind == "read" and relation.read.WhichOneof("read_type") == "named_table":
        key = plain(relation.read.named_table.unparsed_identifier)
        if key in views:
            name = relation.read.named_table.unparsed_identifier.strip().strip("`")
            relation.subquery_alias.alias = name
            relation.subquery_alias.input.CopyFrom(views[key])
    elif kind == "with_relations" and relation.with_relations.root.WhichOneof("rel_type") == "sql":
        _refer(relation.with_relations, relation.with_relations.root.sql.query, views)
    elif kind == "sql":
        named = [name for name in _words(relation.sql.query) if name.lower() in views]
        if named:
            root = type(relation)()
            root.CopyFrom(relation)
            relation.with_relations.root.CopyFrom(root)
            _refer(relation.with_relations, root.sql.query, views)


def _refer(beside: Any, text: str, views: Mapping[str, Any]) -> None:
    """Put the views that a SQL text may name beside it."""
    there = named_references_of(beside)
    for name in _words(text):
        if name.lower() in views and name.lower() not in there:
            there.add(name.lower())
            reference = beside.references.add()
            reference.subquery_alias.alias = name
            reference.subquery_alias.input.CopyFrom(views[name.lower()])


def named_references_of(beside: Any) -> set[str]:
    """Lower-case names of the relations beside a SQL text."""
    return {r.subquery_alias.alias.lower() for r in beside.references if r.WhichOneof("rel_type") == "subquery_alias"}


def _words(text: str) -> Iterator[str]:
    """Return the words of a SQL text that may be names."""
    return iter("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
