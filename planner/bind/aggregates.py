"""What the arguments of an aggregate must be for it to be split."""

from __future__ import annotations

from planner.functions.aggregates import MERGEABLE, aggregate_of
from planner.functions.sketches import MAX_DEVIATION
from planner.graph.expressions import arguments_of, first_aggregate
from planner.sql.dialect import exp, offset_of, snippet
from planner.sql.refusals import function_name, refuse
from planner.sql.source import Source
from planner.values.errors import InvalidExpressionError, PlannerError


def check_aggregate(call: exp.Expr, source: Source) -> None:
    """Raises UnsupportedSqlError or InvalidExpressionError at what is wrong."""
    name, arguments = function_name(call), arguments_of(call)
    nested = next((part for argument in arguments if (part := first_aggregate(argument)) is not None), None)
    if nested is not None:
        raise refuse(nested, source, "an aggregate inside an aggregate is not possible", "Use one of them.")
    if name not in MERGEABLE:
        # Spark computes it as it stands, and knows its arguments.
        return
    entry = aggregate_of(name)
    least, most = entry.arguments
    if not least <= len(arguments) <= most:
        several = f"{least} arguments" if least == most else f"{least} to {most} arguments"
        wanted = "one argument" if most == 1 else several
        raise _invalid(call, call, source, f"{name} takes {wanted}, not {len(arguments)}")
    if entry.name == "approx_count_distinct" and len(arguments) == 2 and not _is_within(arguments[1], MAX_DEVIATION):
        raise _invalid(arguments[1], call, source, f"the error must be a number up to {MAX_DEVIATION}")
    if entry.name == "percentile_approx":
        _check_percentile(call, arguments, source)


def _check_percentile(call: exp.Expr, arguments: tuple[exp.Expr, ...], source: Source) -> None:
    ranks = arguments[1].expressions if function_name(arguments[1]) == "array" else [arguments[1]]
    if not ranks or not all(_is_number(rank) and float(rank.name) <= 1 for rank in ranks):
        raise _invalid(arguments[1], call, source, "the percentile must be a number from 0 to 1, or an array of them")
    if len(arguments) == 3 and not (_is_number(arguments[2]) and int(_whole(arguments[2])) > 0):
        raise _invalid(arguments[2], call, source, "the accuracy must be a whole number of at least 1")


def _is_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _is_within(node: exp.Expr, most: float) -> bool:
    return _is_number(node) and 0 < float(node.name) <= most


def _whole(node: exp.Expr) -> str:
    return node.name if node.name.isdecimal() else "0"


def _invalid(node: exp.Expr, call: exp.Expr, source: Source, message: str) -> PlannerError:
    at = node if offset_of(node) is not None else call
    return InvalidExpressionError(
        message,
        position=source.position(offset_of(at) or 0),
        found=snippet(at, source.text),
        hint=aggregate_of(function_name(call)).usage(function_name(call)),
    )
