"""Relations and functions."""

from __future__ import annotations

from datetime import timedelta

from selat.convert.times import MICROSECOND, to_datetime, to_us
from selat.v1 import common_pb2
from selat.values import (
    Binding,
    Column,
    Function,
    Relation,
    RelationKind,
)

RELATION_KINDS = {
    RelationKind.STREAM: common_pb2.RELATION_KIND_STREAM,
    RelationKind.TABLE: common_pb2.RELATION_KIND_TABLE,
    RelationKind.VIEW: common_pb2.RELATION_KIND_VIEW,
    RelationKind.SINK: common_pb2.RELATION_KIND_SINK,
}


_KINDS_BACK = {wire: kind for kind, wire in RELATION_KINDS.items()}


def column(message: common_pb2.Column) -> Column:
    return Column(message.name, message.type)


def binding(message: common_pb2.Binding) -> Binding:
    has_log = message.has_log if message.HasField("has_log") else None
    return Binding(message.site, dict(sorted(message.options.items())), has_log)


def relation(message: common_pb2.Relation) -> Relation:
    return Relation(
        name=message.name,
        kind=_KINDS_BACK.get(message.kind, RelationKind.STREAM),
        columns=tuple(map(column, message.columns)),
        bindings=tuple(map(binding, message.bindings)),
        event_time=message.event_time or None,
        watermark_delay=timedelta(microseconds=message.watermark_delay_us),
        comment=message.comment,
        created_at=to_datetime(message.created_at_us) if message.created_at_us else None,
        definition=message.definition,
    )


def relation_message(value: Relation) -> common_pb2.Relation:
    return common_pb2.Relation(
        name=value.name,
        kind=RELATION_KINDS[value.kind],
        columns=[common_pb2.Column(name=c.name, type=c.type) for c in value.columns],
        event_time=value.event_time or "",
        watermark_delay_us=value.watermark_delay // MICROSECOND,
        bindings=[common_pb2.Binding(site=b.site, options=dict(b.options)) for b in value.bindings],
        comment=value.comment,
        created_at_us=to_us(value.created_at) if value.created_at else 0,
        definition=value.definition,
    )


def function(message: common_pb2.Function) -> Function:
    return Function(
        name=message.name,
        parameters=tuple(map(column, message.parameters)),
        returns=message.returns,
        entry=message.entry,
        file=message.file,
        source=message.source,
        vectorised=message.vectorised,
        version=f"{message.name.lower()}__{message.digest[:12]}" if message.digest else "",
        created_at=to_datetime(message.created_at_us) if message.created_at_us else None,
    )


def function_message(value: Function) -> common_pb2.Function:
    """The message of a function's definition; the master sets its other fields."""
    return common_pb2.Function(
        name=value.name,
        parameters=[common_pb2.Column(name=c.name, type=c.type) for c in value.parameters],
        returns=value.returns,
        entry=value.entry,
        file=value.file,
        source=value.source,
    )
