"""Columns and functions from and to protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.relations.catalog import DIGEST_CHARS
from selat.v1 import common_pb2
from site_agent.engine import Field, PythonFunction


def fields_from_proto(columns: Iterable[common_pb2.Column]) -> tuple[Field, ...]:
    return tuple(Field(c.name, c.type) for c in columns)


def functions_from_proto(messages: Iterable[common_pb2.Function]) -> tuple[PythonFunction, ...]:
    return tuple(
        PythonFunction(
            name=m.name,
            versioned_name=f"{m.name.lower()}__{m.digest[:DIGEST_CHARS]}",
            parameters=fields_from_proto(m.parameters),
            returns=m.returns,
            entry=m.entry,
            file=m.file,
            source=m.source,
            vectorised=m.vectorised,
        )
        for m in messages
    )


def columns_to_proto(fields: Iterable[Field]) -> Sequence[common_pb2.Column]:
    return [common_pb2.Column(name=f.name, type=f.type) for f in fields]
