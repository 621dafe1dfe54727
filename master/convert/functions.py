"""Converts Python functions to messages and back."""

from __future__ import annotations

from contract.times import to_us
from master.convert.relations import column_to_proto
from planner.relations.catalog import Column, Function
from selat.v1 import common_pb2


def function_to_proto(function: Function) -> common_pb2.Function:
    return common_pb2.Function(
        name=function.name,
        parameters=[column_to_proto(p) for p in function.parameters],
        returns=function.returns,
        entry=function.entry,
        file=function.file,
        source=function.source,
        vectorised=function.vectorised,
        digest=function.digest,
        created_at_us=to_us(function.created_at) if function.created_at else 0,
    )


def function_from_proto(message: common_pb2.Function) -> Function:
    """The function that a client declares; the master determines the rest."""
    return Function(
        name=message.name,
        parameters=tuple(Column(p.name, p.type) for p in message.parameters),
        returns=message.returns,
        entry=message.entry or message.name,
        file=message.file or f"{message.name}.py",
        source=message.source,
    )
