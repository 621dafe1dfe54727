"""Splits of tables, as messages have them."""

from __future__ import annotations

from typing import Protocol

from planner.values.splits import FilePart
from selat.v1 import site_pb2


class Split(Protocol):
    """A split of a table, of the master or of a site."""

    @property
    def parts(self) -> tuple[FilePart, ...]: ...

    @property
    def size_bytes(self) -> int: ...


def split_to_proto(split: Split) -> site_pb2.Split:
    """The message for a split; where it is is not in it."""
    parts = [site_pb2.FilePart(path=part.path, offset=part.offset, length=part.length) for part in split.parts]
    return site_pb2.Split(parts=parts, size_bytes=split.size_bytes)


def parts_from_proto(message: site_pb2.Split) -> tuple[FilePart, ...]:
    """The parts of the split that a message tells."""
    return tuple(FilePart(part.path, part.offset, part.length) for part in message.parts)
