"""Plans of clients that speak Spark Connect: their parts for the list of what is allowed, and the names in them.

Messages are read by their descriptors, so that nothing here needs the protocol's classes, which come with PySpark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from planner.connect.allowed import EAGER
from planner.connect.verdicts import PlanPart
from planner.graph.clientplan import ClientPlan, ClientView
from selat.v1 import common_pb2

PACKAGE = "spark.connect."

_SAME_COLUMNS = frozenset(("show_string", "html_string", "cov", "corr", "approx_quantile"))
"""Relations among the eager ones that always have the same columns."""


def parts(message: Message) -> Iterator[PlanPart]:
    """Each field that is set in the message and in those below it, whatever its type; unknown ones included.

    A field that says `false` is as one that is not set.
    """
    for below in messages(message):
        name = name_of(below)
        for field, value in below.ListFields():
            if value is not False:
                yield PlanPart(name, field.name, value if isinstance(value, str) else "")
        for _ in range(len(UnknownFieldSet(below))):
            yield PlanPart(name, "unknown")


def messages(message: Message) -> Iterator[Message]:
    """The message and all messages below it, outer ones first. Entries of maps are those of their values."""
    waiting = [message]
    while waiting:
        found = waiting.pop()
        yield found
        below = [inner for field, value in found.ListFields() for inner in _inner(field, value)]
        waiting.extend(reversed(below))


def name_of(message: Message) -> str:
    """The name of its class, without the protocol's package."""
    return message.DESCRIPTOR.full_name.removeprefix(PACKAGE)


def tables_named(message: Message) -> Iterator[str]:
    """The names of tables and views that are read by name, as they are written."""
    for found in messages(message):
        if name_of(found) == "Read.NamedTable":
            yield str(getattr(found, "unparsed_identifier"))  # noqa: B009 - the class is PySpark's


def sql_texts(message: Message) -> Iterator[str]:
    """The SQL queries in a plan."""
    for found in messages(message):
        if name_of(found) == "SQL":
            yield str(getattr(found, "query"))  # noqa: B009


def expression_texts(message: Message) -> Iterator[str]:
    """The SQL expressions in a plan."""
    for found in messages(message):
        if name_of(found) == "Expression.ExpressionString":
            yield str(getattr(found, "expression"))  # noqa: B009


def named_references(message: Message) -> frozenset[str]:
    """Lower-case names that SQL queries in a plan have for relations beside them (`spark.sql(text, df=df)`)."""
    found: set[str] = set()
    for below in messages(message):
        if name_of(below) == "WithRelations":
            aliases = (reference for reference in _field(below, "references") if _kind(reference) == "subquery_alias")
            found.update(str(_field(_field(alias, "subquery_alias"), "alias")).lower() for alias in aliases)
    return frozenset(found)


def eager_inputs(relation: Message) -> list[Message]:
    """The relations that Spark runs to make a plan of this one, innermost first."""
    eager = (below for below in messages(relation) if name_of(below) == "Relation" and is_eager(below))
    return [_field(_field(below, _kind(below)), "input") for below in eager][::-1]


def is_eager(relation: Message) -> bool:
    """Return whether Spark runs the relation's input to plan it, as for a pivot whose values are not given."""
    kind = _kind(relation)
    if kind == "aggregate":
        aggregate = _field(relation, kind)
        return bool(aggregate.HasField("pivot") and not aggregate.pivot.values)
    return kind in EAGER


def has_own_columns(relation: Message) -> bool:
    """Return whether the relation's columns depend on rows, so that they are not known before it has run."""
    eager = (below for below in messages(relation) if name_of(below) == "Relation" and is_eager(below))
    return any(_kind(below) not in _SAME_COLUMNS for below in eager)


def plan_to_proto(plan: ClientPlan) -> common_pb2.ClientPlan:
    views = [
        common_pb2.ClientView(name=view.name, sql=view.sql, relation=view.relation, columns=view.columns)
        for view in plan.views
    ]
    return common_pb2.ClientPlan(relation=plan.relation, views=views, settings=plan.settings)


def plan_from_proto(message: common_pb2.ClientPlan) -> ClientPlan:
    views = (ClientView(view.name, view.sql, view.relation, tuple(view.columns)) for view in message.views)
    return ClientPlan(message.relation, tuple(views), dict(sorted(message.settings.items())))


def _inner(field: FieldDescriptor, value: Any) -> Iterator[Message]:
    if field.message_type is None:
        return
    if field.message_type.GetOptions().map_entry:
        yield from (item for item in value.values() if isinstance(item, Message))
    elif isinstance(value, Message):
        yield value
    else:
        yield from value


def _kind(relation: Message) -> str:
    return relation.WhichOneof("rel_type") or ""


def _field(message: Message, name: str) -> Any:
    return getattr(message, name)
