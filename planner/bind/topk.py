"""QUALIFY: the top k rows of each window."""

from __future__ import annotations

from dataclasses import dataclass

from planner.bind.binder import Binder
from planner.bind.windowkeys import part_of_window
from planner.functions.traits import RANKS
from planner.graph.expressions import first_aggregate
from planner.sql.dialect import exp, offset_of
from planner.sql.refusals import function_name, refuse
from planner.sql.source import Source

FORM = "QUALIFY row_number() OVER (PARTITION BY window ORDER BY n DESC) <= k is possible; rank() and dense_rank() too."
_MIRRORED = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.EQ: exp.EQ}


@dataclass(frozen=True, slots=True)
class TopK:
    """Keep the rows whose rank within the partition is at most k."""

    function: str
    partition: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...]
    k: int

    @property
    def parts(self) -> tuple[exp.Expr, ...]:
        return (*self.partition, *(ordered.this for ordered in self.order))


def bind_top_k(tree: exp.Select, binder: Binder, *, windowed: bool = False) -> TopK | None:
    """The query's top-k, None when it has no QUALIFY.

    Args:
        tree: the SELECT.
        binder: what names mean.
        windowed: the window is part of the partition without being named there.

    Raises:
        UnsupportedSqlError: QUALIFY has another form.
    """
    qualify = tree.args.get("qualify")
    if qualify is None:
        return None
    source = binder.scope.source
    over, k = _comparison(qualify, source)
    call = over.this
    if function_name(call) not in RANKS or call.expressions:
        raise refuse(call, source, "only a rank can be compared in QUALIFY", FORM)
    order = over.args.get("order")
    if order is None or over.args.get("spec") is not None:
        raise refuse(over, source, "the rank needs ORDER BY and no frame", FORM)
    partition = tuple(binder.bind(part) for part in over.args.get("partition_by") or [])
    if binder.windows is not None and not windowed and not any(_covers_window(part, binder) for part in partition):
        raise refuse(over, source, "the rank must be PARTITION BY window", FORM)
    keys = tuple(part.unnest() for part in partition if not _covers_window(part, binder))
    for part in partition:
        if (aggregate := first_aggregate(part)) is not None:
            raise refuse(aggregate, source, "an aggregate cannot partition", "PARTITION BY window and group keys.")
    return TopK(function_name(call), keys, tuple(_ordered(o, binder) for o in order.expressions), k)


def partition_of(tree: exp.Select, binder: Binder) -> tuple[exp.Expr, ...]:
    """Return the expressions that the rank of QUALIFY is partitioned by. Raises as `bind_top_k`."""
    over, _ = _comparison(tree.args["qualify"], binder.scope.source)
    return tuple(binder.bind(part).unnest() for part in over.args.get("partition_by") or [])


def _comparison(qualify: exp.Expr, source: Source) -> tuple[exp.Window, int]:
    condition = qualify.this.unnest()
    for kind, mirrored in _MIRRORED.items():
        if isinstance(condition, kind) and isinstance(condition.right.unnest(), exp.Window):
            condition = mirrored(this=condition.right.copy(), expression=condition.left.copy())
            break
    over = condition.this.unnest() if isinstance(condition, exp.LTE | exp.LT | exp.EQ) else None
    if not isinstance(over, exp.Window):
        raise refuse(qualify, source, "QUALIFY of this form is not possible", FORM)
    return over, _limit(condition, source)


def _limit(condition: exp.Expr, source: Source) -> int:
    bound = condition.expression.unnest()
    k = int(bound.name) if isinstance(bound, exp.Literal) and bound.name.isdecimal() else 0
    k -= isinstance(condition, exp.LT)
    if k < 1 or (isinstance(condition, exp.EQ) and k != 1):
        at = bound if offset_of(bound) is not None else condition
        raise refuse(at, source, "the rank's bound must be a whole number of at least one", FORM)
    return k


def _covers_window(part: exp.Expr, binder: Binder) -> bool:
    return part_of_window(part, binder.windows or {}) is not None


def _ordered(ordered: exp.Expr, binder: Binder) -> exp.Ordered:
    copy = ordered.copy()
    copy.set("this", binder.bind(ordered.this))
    assert isinstance(copy, exp.Ordered)
    return copy
