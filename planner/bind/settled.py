"""Calls of aggregates over streams that are written in others; `planner.functions.settled` has the templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.bind.scope import Scope
from planner.functions.settled import ASCENDING, DESCENDING, SETTLED, Settled
from planner.graph.aggregates import filled, filtered
from planner.graph.expressions import WRITTEN, arguments_of, around_call, first_aggregate, is_aggregate, is_distinct
from planner.sql.dialect import exp, offset_of, parse_template, render, snippet
from planner.sql.refusals import function_name, refuse
from planner.values.errors import InvalidExpressionError, PlannerError

_SETTLED = "settled"
"""Key of the metadata of an aggregate that is part of what such a call is written as."""

_ARGUMENTS = ("x", "y", "z")


def settle_calls(root: exp.Expr, scope: Scope, lost_time: str) -> None:
    """Replaces the calls within a bound expression over streams, which is no call itself.

    Args:
        root: what is around them.
        scope: what names mean.
        lost_time: what helps where the rows have no event time.

    Raises:
        InvalidExpressionError, UnsupportedSqlError: at the call that is wrong.
    """
    for call in [c for c in root.find_all(exp.Anonymous) if function_name(c) in SETTLED and is_aggregate(c)]:
        if _SETTLED not in call.meta:
            _Call(call, scope, lost_time).replace()


class _Call:
    """One call, with IGNORE NULLS and FILTER around it."""

    def __init__(self, call: exp.Anonymous, scope: Scope, lost_time: str) -> None:
        self._name = function_name(call)
        self._call, self._scope, self._lost_time = call, scope, lost_time
        self._arguments = arguments_of(call)
        self._around = tuple(around_call(call))

    def replace(self) -> None:
        """Puts what it is written as in its place."""
        entry = SETTLED[self._name]
        nested = next((found for part in self._arguments if (found := first_aggregate(part)) is not None), None)
        if nested is not None:
            message = "an aggregate inside an aggregate is not possible"
            raise refuse(nested, self._scope.source, message, "Use one of them.")
        self._check_arguments(entry)
        self._check_order(entry)
        made = filled(self._template(entry), self._values(entry))
        outermost = self._around[-1] if self._around else self._call
        for node in self._around:
            if isinstance(node, exp.Filter):
                made = filtered(made, node.expression.this)
        for part in made.walk():
            if is_aggregate(part):
                part.meta[_SETTLED] = True
        made.meta[WRITTEN] = render(outermost)
        outermost.replace(made)

    def _check_arguments(self, entry: Settled) -> None:
        least, most = entry.arguments
        if not least <= len(self._arguments) <= most:
            several = f"{least} arguments" if least == most else f"{least} to {most} arguments"
            wanted = "one argument" if most == 1 else several
            raise self._invalid(self._call, entry, f"{self._name} takes {wanted}, not {len(self._arguments)}")
        for place in entry.constants:
            if place < len(self._arguments) and not _is_constant(self._arguments[place]):
                message = f"argument {place + 1} of {self._name} must be written out"
                raise self._invalid(self._arguments[place], entry, message)
        ranks = {"percentile": 1, "percentile_cont": 0, "percentile_disc": 0}.get(self._name)
        if ranks is not None and not all(map(_is_rank, _listed(self._arguments[ranks]))):
            message = "the percentile must be a number from 0 to 1, or an array of them"
            raise self._invalid(self._arguments[ranks], entry, message)

    def _check_order(self, entry: Settled) -> None:
        """Refuses WITHIN GROUP where it is not possible, of several expressions, or with NULLs elsewhere than Spark."""
        order = self._order()
        if entry.only_within and (order is None or function_name(self._arguments[0]) == "array"):
            raise self._invalid(self._call, entry, f"{self._name} takes one number and WITHIN GROUP")
        if order is None:
            return
        source = self._scope.source
        if entry.within is None:
            message = f"{self._name} WITHIN GROUP is not possible"
            raise refuse(self._call, source, message, f"{entry.usage(self._name)} is possible.")
        first, *more = order
        usual = bool(first.args.get("nulls_first")) != bool(first.args.get("desc"))
        if more or not usual or is_distinct(self._call):
            message = "WITHIN GROUP orders by one expression, with NULLs where Spark has them, and not with DISTINCT"
            raise refuse(self._call, source, message, f"{self._name}(...) WITHIN GROUP (ORDER BY x DESC) is possible.")

    def _template(self, entry: Settled) -> str:
        order = self._order()
        if order is not None and entry.within is not None:
            sort = DESCENDING if order[0].args.get("desc") else ASCENDING
            return entry.within(sort, self._time() is not None)
        if self._name == "percentile" and function_name(self._arguments[1]) == "array":
            return SETTLED["percentiles"].template
        if is_distinct(self._call):
            if not entry.distinct:
                message = f"DISTINCT inside {self._name} is not possible"
                raise refuse(self._call, self._scope.source, message, f"{entry.usage(self._name)} is possible.")
            return entry.distinct
        if entry.with_all and len(self._arguments) == entry.arguments[1]:
            return entry.with_all
        if self._time() is None and "t" in _names(entry.template):
            if not entry.without_time:
                message = f"{self._name} needs rows with an event time"
                hint = self._lost_time or "Over the rows of windows: min_by(x, w.start), max_by(x, w.start)."
                raise refuse(self._call, self._scope.source, message, hint)
            return entry.without_time
        return entry.without_nulls if entry.without_nulls and self._ignores_nulls() else entry.template

    def _ignores_nulls(self) -> bool:
        said = len(self._arguments) > 1 and self._arguments[1] == exp.Boolean(this=True)
        return said or any(isinstance(node, exp.IgnoreNulls) for node in self._around)

    def _values(self, entry: Settled) -> Mapping[str, exp.Expr]:
        values = dict(zip(_ARGUMENTS, self._arguments, strict=False))
        if entry.default and len(self._arguments) < entry.arguments[1]:
            tree = parse_template(f"SELECT {entry.default}")
            assert tree is not None
            values[_ARGUMENTS[entry.arguments[1] - 1]] = tree.expressions[0]
        if (order := self._order()) is not None:
            values["o"] = order[0].this
        time = self._time()
        return values if time is None else {**values, "t": time}

    def _order(self) -> list[exp.Expr] | None:
        """Return what WITHIN GROUP orders by; None: there is none."""
        found = next((node for node in self._around if isinstance(node, exp.WithinGroup)), None)
        return None if found is None else list(found.expression.expressions)

    def _time(self) -> exp.Expr | None:
        return self._scope.event_time

    def _invalid(self, node: exp.Expr, entry: Settled, message: str) -> PlannerError:
        at = node if offset_of(node) is not None else self._call
        return InvalidExpressionError(
            message,
            position=self._scope.source.position(offset_of(at) or 0),
            found=snippet(at, self._scope.source.text),
            hint=entry.usage(self._name),
        )


def _names(template: str) -> frozenset[str]:
    tree = parse_template(f"SELECT {template}")
    assert tree is not None
    return frozenset(column.name for column in tree.find_all(exp.Column))


def _listed(node: exp.Expr) -> Sequence[exp.Expr]:
    return list(node.expressions) if function_name(node) == "array" else [node]


def _is_constant(node: exp.Expr) -> bool:
    return all(isinstance(part, exp.Literal | exp.Boolean | exp.Null | exp.RawString) for part in _listed(node))


def _is_rank(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.name) <= 1
