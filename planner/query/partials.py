"""What is computed at the sources for each aggregate; `planner.merge` says how it is merged."""

from __future__ import annotations

from dataclasses import dataclass

from planner.functions import PERCENTILES, VARIANCES
from planner.query.sketches import hll_lg_k, kll_k


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate of a query, its arguments as SQL over the kept rows."""

    name: str
    arguments: tuple[str, ...]
    condition: str = ""
    """Of FILTER; empty: none."""
    distinct: bool = False

    def over(self, function: str, argument: str) -> str:
        """Another aggregate over the same rows."""
        return f"{function}({argument}){f' FILTER(WHERE {self.condition})' if self.condition else ''}"

    @property
    def values(self) -> str:
        """The argument, NULL in rows that do not count; several arguments as one, NULL when one of them is."""
        value, conditions = self.arguments[0], [f"({self.condition})"] if self.condition else []
        if len(self.arguments) > 1:
            conditions += [f"({argument}) IS NOT NULL" for argument in self.arguments]
            value = f"struct({', '.join(self.arguments)})"
        return f"CASE WHEN {' AND '.join(conditions)} THEN {value} END" if conditions else value


@dataclass(frozen=True, slots=True)
class Piece:
    """One partial aggregate: its SQL at the source and how it is combined."""

    sql: str
    function: str
    of: tuple[int, ...] = ()
    """Places of the pieces that it takes."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The partials of an aggregate and what they are made into."""

    partials: tuple[Piece, ...]
    function: str = "value"
    argument: str = ""


def pieces_of(call: Call) -> Pieces:
    """How an aggregate is split."""
    if call.distinct and call.name not in ("min", "max"):
        name = "avg" if call.name == "mean" else call.name
        return Pieces((Piece(f"collect_set({call.values})", "set"),), f"{name}_distinct")
    argument = ", ".join(call.arguments)
    count = Piece(call.over("count", argument), "sum")
    if call.name in ("avg", "mean"):
        return Pieces((Piece(call.over("sum", argument), "sum"), count), "avg")
    if call.name in VARIANCES:
        return _moments(call, count)
    if call.name == "approx_count_distinct":
        return _hll(call)
    if call.name in PERCENTILES:
        return _kll(call)
    if call.name == "count":
        return Pieces((count,))
    return Pieces((Piece(call.over(call.name, argument), call.name),))


def _moments(call: Call, count: Piece) -> Pieces:
    value = f"CAST({call.arguments[0]} AS DOUBLE)"
    mean = Piece(call.over("avg", value), "mean", of=(0,))
    m2 = Piece(f"{call.over('var_pop', value)} * {count.sql}", "m2", of=(0, 1))
    return Pieces((count, mean, m2), VARIANCES[call.name])


def _hll(call: Call) -> Pieces:
    """The sketch takes few types, so it gets hashes of 64 bits, whose collisions are far below its error."""
    value, *deviation = call.arguments
    counted = f"({value}) IS NOT NULL" + (f" AND ({call.condition})" if call.condition else "")
    hashes = f"CASE WHEN {counted} THEN xxhash64({value}) END"
    return Pieces((Piece(f"hll_sketch_agg({hashes}, {hll_lg_k(*deviation)})", "hll_union_agg"),), "sketched_count")


def _kll(call: Call) -> Pieces:
    value, ranks, *accuracy = call.arguments
    sketch = call.over("kll_sketch_agg_double", f"CAST({value} AS DOUBLE), {kll_k(*accuracy)}")
    pieces = (Piece(sketch, "kll_merge_agg_double"), Piece(call.over("max", value), "max"))
    return Pieces(pieces, "quantiles" if ranks.startswith("array") else "quantile", ranks)
