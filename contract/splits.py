"""Splits of tables, as messages have them."""

from __future__ import annotations

from typing import Protocol

from planner.values.ranges import AllOf, AnyOf, Comparison, Condition, Operator
from planner.values.splits import FilePart
from selat.v1 import exchange_pb2, site_pb2

_OPERATORS: tuple[Operator, ...] = ("=", "<", "<=", ">", ">=", "IS NULL", "IS NOT NULL")


class Split(Protocol):
    """A split of a table, of the master or of a site."""

    @property
    def parts(self) -> tuple[FilePart, ...]: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def left_out_bytes(self) -> int: ...


def split_to_proto(split: Split) -> site_pb2.Split:
    """The message for a split; where it is is not in it."""
    parts = [site_pb2.FilePart(path=part.path, offset=part.offset, length=part.length) for part in split.parts]
    return site_pb2.Split(parts=parts, size_bytes=split.size_bytes, left_out_bytes=split.left_out_bytes)


def parts_from_proto(message: site_pb2.Split) -> tuple[FilePart, ...]:
    """The parts of the split that a message tells."""
    return tuple(FilePart(part.path, part.offset, part.length) for part in message.parts)


def condition_to_proto(condition: Condition) -> exchange_pb2.RowCondition:
    if isinstance(condition, Comparison):
        test = exchange_pb2.RowTest(column=condition.column, operator=condition.operator, value=condition.value)
        return exchange_pb2.RowCondition(test=test)
    parts = exchange_pb2.RowConditions(parts=map(condition_to_proto, condition.parts))
    if isinstance(condition, AllOf):
        return exchange_pb2.RowCondition(all_of=parts)
    return exchange_pb2.RowCondition(any_of=parts)


def condition_from_proto(message: exchange_pb2.RowCondition) -> Condition:
    """The condition in a message; what is not known of it counts as true, as does a message without a field."""
    kind = message.WhichOneof("condition")
    if kind == "all_of":
        return AllOf(tuple(map(condition_from_proto, message.all_of.parts)))
    if kind == "any_of":
        return AnyOf(tuple(map(condition_from_proto, message.any_of.parts)))
    test = message.test
    operator = next((known for known in _OPERATORS if known == test.operator), None)
    return AllOf(()) if operator is None else Comparison(test.column, operator, test.value)
