"""The bin of a row: which of a fixed number of ranges the hash of its keys is in."""

from __future__ import annotations

from collections.abc import Sequence

from planner.graph.operators import Expression
from planner.sql.dialect import exp
from planner.values.names import BINS


def bin_of(keys: Sequence[Expression]) -> Expression:
    """The bin of these keys, whatever their order: queries that differ in it alone have the same bins."""
    hashes = [_hash(key.copy()) for key in keys]
    whole = hashes[0] if len(hashes) == 1 else _hash(_call("sort_array", _call("array", *hashes)))
    return _call("pmod", whole, exp.Literal.number(BINS))


def _hash(node: Expression) -> Expression:
    return _call("xxhash64", node)


def _call(name: str, *arguments: Expression) -> Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))
