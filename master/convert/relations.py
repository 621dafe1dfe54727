"""Converts relations to messages and back."""

from __future__ import annotations

from datetime import datetime, timedelta

from contract.times import duration_us, from_us, to_us
from master.base.errors import InvalidRequestError
from planner.relations.catalog import ARRIVED, Binding, Column, Relation, RelationKind, is_arrival
from planner.relations.connectors.table import traits_of
from selat.v1 import common_pb2

_KINDS = {
    RelationKind.STREAM: common_pb2.RELATION_KIND_STREAM,
    RelationKind.TABLE: common_pb2.RELATION_KIND_TABLE,
    RelationKind.SINK: common_pb2.RELATION_KIND_SINK,
    RelationKind.VIEW: common_pb2.RELATION_KIND_VIEW,
}
_KINDS_BACK = {wire: kind for kind, wire in _KINDS.items()}


def relation_to_proto(relation: Relation) -> common_pb2.Relation:
    return common_pb2.Relation(
        name=relation.name,
        kind=_KINDS[relation.kind],
        columns=[column_to_proto(c) for c in relation.declared],
        event_time=relation.event_time or "",
        watermark_delay_us=duration_us(relation.watermark_delay),
        bindings=[_binding(b) for b in relation.bindings],
        comment=relation.comment,
        created_at_us=to_us(relation.created_at) if relation.created_at else 0,
        definition=relation.definition,
    )


def _binding(binding: Binding) -> common_pb2.Binding:
    return common_pb2.Binding(site=binding.site, options=binding.options, has_log=traits_of(binding.options).has_log)


def relation_from_proto(message: common_pb2.Relation) -> Relation:
    """The relation in a message. Raises InvalidRequestError when the kind is missing, or a time is out of range."""
    kind = kind_from_proto(message.kind)
    if kind is None:
        raise InvalidRequestError(f"{message.name!r} is neither stream, table, view nor sink", hint="set Relation.kind")
    columns = tuple(Column(c.name, c.type) for c in message.columns)
    by_arrival = is_arrival(message.event_time, (c.name for c in columns))
    return Relation(
        name=message.name,
        kind=kind,
        columns=(*columns, ARRIVED) if by_arrival else columns,
        bindings=tuple(Binding(b.site, dict(sorted(b.options.items()))) for b in message.bindings),
        event_time=message.event_time or None,
        watermark_delay=timedelta(microseconds=message.watermark_delay_us),
        by_arrival=by_arrival,
        comment=message.comment,
        created_at=_created_at(message),
        definition=message.definition,
    )


def _created_at(message: common_pb2.Relation) -> datetime | None:
    try:
        return from_us(message.created_at_us) if message.created_at_us else None
    except OverflowError:
        raise InvalidRequestError(
            f"Relation.created_at_us {message.created_at_us} is beyond the year 9999", hint="leave it out"
        ) from None


def kind_from_proto(kind: common_pb2.RelationKind.ValueType) -> RelationKind | None:
    """The kind in a message; None: it is missing."""
    return _KINDS_BACK.get(kind)


def column_to_proto(column: Column) -> common_pb2.Column:
    return common_pb2.Column(name=column.name, type=column.type)
