"""What a query over tables may have that Spark is to run as it is written: all but what is unsafe or depends on the
moment. The agent checks that again, on what Spark's parser reads."""

from __future__ import annotations

from planner.functions.traits import BARE_NOT_REPEATABLE, CUMULATE, TIME_UNIT_FUNCTIONS
from planner.sql.allowed import TABLE_NODES, spelled, what_is_refused
from planner.sql.dialect import exp, parts_of
from planner.sql.refusals import check_callable, check_unit, function_name, refuse
from planner.sql.source import Source
from planner.values.errors import UnsupportedSqlError


def check_calls(tree: exp.Expr, source: Source) -> None:
    """Raises UnsupportedSqlError at a call that no query may have, with its place."""
    for node in tree.walk(bfs=False):
        if isinstance(node, exp.Anonymous | exp.Func):
            check_callable(node, source)
        if function_name(node) == CUMULATE:
            raise over_tables(node, source)
        if function_name(node) in TIME_UNIT_FUNCTIONS and len(node.expressions) == 3:
            unit = node.expressions[0]
            if isinstance(unit, exp.Column):
                check_unit(unit, source)


def over_tables(call: exp.Expr, source: Source) -> UnsupportedSqlError:
    """Return the error to raise at a call of cumulative windows over tables."""
    hint = "Over tables group by the step, and add up: sum(n) OVER (PARTITION BY ... ORDER BY ...)."
    return refuse(call, source, f"{CUMULATE} is possible over streams alone", hint)


def check_bare_names(tree: exp.Expr, source: Source) -> None:
    """Raises UnsupportedSqlError at a name that Spark may take for a call, as in `WHERE day < current_date`."""
    for node in tree.find_all(exp.Column, bfs=False):
        if len(parts_of(node)) == 1 and node.name.lower() in BARE_NOT_REPEATABLE:
            message = f"{node.name} is not possible: Spark would take it for the function"
            raise refuse(node, source, message, "Of a column of that name, name the table too.")


def refused_in_whole(tree: exp.Expr) -> str | None:
    """A description of the first thing that is not in the table; None when there is none."""
    for node in tree.walk(bfs=False):
        what = what_is_refused(node, TABLE_NODES)
        if what is None and isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            what = f"{spelled(type(node.this).__name__)} in FROM"
        if what is not None:
            return what
    return None
