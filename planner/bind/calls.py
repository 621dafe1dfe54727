"""Calls of Python functions in a query: checked, and named by the version that is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.bind.scope import did_you_mean
from planner.functions.table import NAMES
from planner.functions.traits import CUMULATE
from planner.relations.catalog import Function
from planner.sql.dialect import exp, offset_of, snippet
from planner.sql.refusals import function_name
from planner.sql.source import Source
from planner.values.errors import InvalidExpressionError


def checked_call(call: exp.Anonymous, function: Function, source: Source) -> str:
    """The versioned name of the function that is called.

    Raises:
        InvalidExpressionError: it is called with another number of arguments, or with * or DISTINCT.
    """
    arguments, wanted = call.expressions, len(function.parameters)
    if len(arguments) == wanted and not any(isinstance(a, exp.Star | exp.Distinct) for a in arguments):
        return function.versioned_name
    given = "* or DISTINCT" if len(arguments) == wanted else str(len(arguments))
    raise InvalidExpressionError(
        f"{function.name} takes {wanted} argument{'s' if wanted > 1 else ''}, not {given}",
        position=source.position(offset_of(call) or 0),
        found=snippet(call, source.text),
        hint=f"It is {function.signature}.",
    )


def check_known(tree: exp.Expr, functions: Mapping[str, Function], source: Source) -> None:
    """Refuse calls of unknown functions: those that are neither in the table of allowed functions nor in `functions`.

    The parser has already refused the other functions of Spark, with the reason.

    Raises:
        InvalidExpressionError: a function is unknown; with its place and the nearest name.
    """
    for call in tree.find_all(exp.Anonymous, bfs=False):
        name = function_name(call)
        if name not in NAMES and name != CUMULATE and name not in functions:
            raise InvalidExpressionError(
                f"there is no function {name}",
                position=source.position(offset_of(call) or 0),
                found=snippet(call, source.text),
                hint=did_you_mean(name, [*NAMES, CUMULATE, *functions])
                or "docs/sql.md lists the functions that can be called.",
            )


def called_functions(tree: exp.Expr, functions: Mapping[str, Function]) -> tuple[Function, ...]:
    """The functions that a query as parsed calls, by name."""
    names = {function_name(call) for call in tree.find_all(exp.Anonymous)}
    return tuple(functions[name] for name in sorted(names & set(functions)))


def function_calls(node: exp.Expr, functions: Mapping[str, Function]) -> Iterator[exp.Expr]:
    """The calls of Python functions in a bound expression."""
    versions = {function.versioned_name for function in functions.values()}
    return (call for call in node.find_all(exp.Anonymous) if function_name(call) in versions)
