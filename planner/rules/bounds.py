"""Which rows of its table a MAP needs, as conditions that sites can hold against what they know of parts of files.

The conditions of a Filter say it: of a row that does not fulfil them nothing comes out, whatever stands above. What is
not understood counts as true. Joins of MAPs keep the columns of the left rows, so a Filter above one counts as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from planner.graph.operators import Alias, Filter, Generate, Join, Operator, Project, Scan, inputs_of
from planner.graph.plan import Stage
from planner.relations.catalog import Column
from planner.sql.dialect import exp
from planner.values import ranges
from planner.values.names import INPUT_VIEW
from planner.values.ranges import AllOf, AnyOf, Comparison, Condition, is_compared, value_of

MAX_TESTS = 1000
"""Of one condition: a longer list of values is not held against every part of a table."""

_FLIPPED: Mapping[str, ranges.Operator] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARISONS: Mapping[type[exp.Expr], ranges.Operator] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is known of the rows of an operator."""

    columns: Mapping[str, Column]
    """The table's columns among them, by the names under which the view `input` has them."""
    conditions: tuple[Condition, ...] = ()
    """What a row of the table fulfils if anything of it is among them."""


def needed_rows(stage: Stage, columns: Sequence[Column]) -> Condition | None:
    """What a row of the table must fulfil to matter to the stage; None: nothing that is understood here.

    Args:
        stage: a MAP.
        columns: of its table.
    """
    found = () if stage.body is None else _rows(stage.body, columns).conditions
    return AllOf(found) if found else None


def _rows(operator: Operator, columns: Sequence[Column]) -> _Rows:
    if isinstance(operator, Scan):
        return _Rows({column.name: column for column in columns} if operator.view == INPUT_VIEW else {})
    if isinstance(operator, Join):
        return _rows(operator.left_input, columns)
    below = inputs_of(operator)
    if len(below) != 1:
        return _Rows({})
    rows = _rows(below[0], columns)
    if isinstance(operator, Filter):
        found = (_condition(condition, rows.columns) for condition in operator.conditions)
        return _Rows(rows.columns, (*rows.conditions, *(part for part in found if part is not None)))
    if isinstance(operator, Generate):
        return rows
    if isinstance(operator, Project):
        kept = ((item.name, _column(item.expression, rows.columns)) for item in operator.items)
        return _Rows({name: column for name, column in kept if column is not None}, rows.conditions)
    named = isinstance(operator, Alias) and operator.name == INPUT_VIEW
    return _Rows(rows.columns if named else {}, rows.conditions)


def _condition(node: exp.Expr, columns: Mapping[str, Column]) -> Condition | None:
    bare = node.unnest()
    if isinstance(bare, exp.And):
        parts = [part for part in (_condition(side, columns) for side in _sides(bare, exp.And)) if part is not None]
        return AllOf(tuple(parts)) if parts else None
    if isinstance(bare, exp.Or):
        return _any_of(_condition(side, columns) for side in _sides(bare, exp.Or))
    reader = _READERS.get(type(bare))
    return None if reader is None else reader(bare, columns)


def _sides(node: exp.Expr, kind: type[exp.And] | type[exp.Or]) -> list[exp.Expr]:
    """What a chain of ANDs or ORs connects; such chains can be longer than calls may be deep."""
    sides, stack = [], [node]
    while stack:
        bare = stack.pop().unnest()
        if isinstance(bare, kind):
            stack += [bare.right, bare.left]
        else:
            sides.append(bare)
    return sides


def _any_of(parts: Iterable[Condition | None]) -> Condition | None:
    found: list[Condition] = []
    for part in parts:
        if part is None or len(found) == MAX_TESTS:
            return None
        found.append(part)
    return AnyOf(tuple(found)) if found else None


def _compared(node: exp.Expr, columns: Mapping[str, Column]) -> Condition | None:
    operator, left, right = _COMPARISONS[type(node)], node.this, node.expression
    return _test(left, operator, right, columns) or _test(right, _FLIPPED[operator], left, columns)


def _between(node: exp.Expr, columns: Mapping[str, Column]) -> Condition | None:
    if node.args.get("symmetric"):
        return None
    ends = (_test(node.this, ">=", node.args["low"], columns), _test(node.this, "<=", node.args["high"], columns))
    known = tuple(end for end in ends if end is not None)
    return AllOf(known) if known else None


def _in(node: exp.Expr, columns: Mapping[str, Column]) -> Condition | None:
    return _any_of(_test(node.this, "=", choice, columns) for choice in node.expressions)


def _is(node: exp.Expr, columns: Mapping[str, Column], operator: ranges.Operator = "IS NULL") -> Condition | None:
    column = _column(node.this, columns)
    return Comparison(column.name, operator) if column is not None and isinstance(node.expression, exp.Null) else None


def _not(node: exp.Expr, columns: Mapping[str, Column]) -> Condition | None:
    bare = node.this.unnest()
    return _is(bare, columns, "IS NOT NULL") if isinstance(bare, exp.Is) else None


_READERS: Mapping[type[exp.Expr], Callable[[exp.Expr, Mapping[str, Column]], Condition | None]] = {
    **dict.fromkeys(_COMPARISONS, _compared),
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.Not: _not,
}


def _test(
    left: exp.Expr, operator: ranges.Operator, right: exp.Expr, columns: Mapping[str, Column]
) -> Condition | None:
    column = _column(left, columns)
    if column is None or not is_compared(column.type):
        return None
    text = _text(right.unnest(), column.type)
    try:
        return None if text is None else Comparison(column.name, operator, _valid(text, column.type))
    except ValueError:
        return None


def _valid(text: str, column_type: str) -> str:
    """The text. Raises ValueError when it is no value of the type."""
    value_of(text, column_type)
    return text


def _column(node: exp.Expr, columns: Mapping[str, Column]) -> Column | None:
    bare = node.unnest()
    return columns.get(bare.name) if isinstance(bare, exp.Column) and bare.table in ("", INPUT_VIEW) else None


def _text(node: exp.Expr, column_type: str) -> str | None:
    """A constant as text, where Spark compares it with the column as a value of the column's type."""
    numbers = column_type not in ("STRING", "DATE", "TIMESTAMP")
    if isinstance(node, exp.Neg) and numbers:
        text = _text(node.this.unnest(), column_type)
        return None if text is None or text.startswith("-") else f"-{text}"
    if isinstance(node, exp.Literal):
        return node.name if node.is_string != numbers else None
    if isinstance(node, exp.Cast) and isinstance(inner := node.this.unnest(), exp.Literal):
        to = node.to.sql(dialect="spark").replace(" ", "").upper()
        return inner.name if _is_exact(inner.name, to, column_type) else None
    return None


def _is_exact(text: str, to: str, column_type: str) -> bool:
    """Whether a CAST of the text to a type leaves the value as it is, and the type compares as the column's does."""
    if to in ("DATE", "TIMESTAMP"):
        return to == column_type or ((to, column_type) == ("DATE", "TIMESTAMP") and len(text) == len("2026-01-31"))
    if to.startswith("DECIMAL(") and column_type not in ("STRING", "DATE", "TIMESTAMP"):
        scale = int(to.removesuffix(")").rpartition(",")[2])
        return is_compared(to) and len(text.partition(".")[2]) <= scale
    return to in ranges.WHOLE_NUMBERS and "." not in text and column_type not in ("STRING", "DATE", "TIMESTAMP")
