"""The logical plan as indented lines, result first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from planner.graph.expressions import WRITTEN
from planner.graph.logical import (
    Aggregate,
    Changes,
    Filter,
    Generate,
    Having,
    Insert,
    Join,
    JoinOfWindows,
    Limit,
    LogicalOperator,
    MergeAggregate,
    PartialAggregate,
    Project,
    Scan,
    Sort,
    TopK,
    UnionAll,
    Whole,
    Windows,
    inputs_of,
)
from planner.graph.operators import Expression, Named
from planner.relations.catalog import DIGEST_CHARS
from planner.sql.dialect import exp, render
from planner.sql.intervals import format_interval, format_windows

_WIDTH = 200
"""Characters of an expression that are shown."""

_VERSION = re.compile(rf"__[0-9a-f]{{{DIGEST_CHARS}}}\(")
"""Between the name of a Python function and its arguments: the version that is called."""


def logical_lines(operator: LogicalOperator, notes: Iterable[str] = ()) -> tuple[str, ...]:
    """One line per operator, each input two blanks further in; then what became of derived tables."""
    return (*_lines(operator, ""), *(f"({note})" for note in notes))


def _lines(operator: LogicalOperator, indent: str) -> Iterator[str]:
    yield indent + _line(operator)
    for part in inputs_of(operator):
        yield from _lines(part, indent + "  ")


def _line(operator: LogicalOperator) -> str:
    match operator:
        case Scan():
            left_out = f"; not {', '.join(operator.left_out)}" if operator.left_out else ""
            return f"Scan[{operator.relation} at {', '.join(operator.sites) or 'no site'}{left_out}]"
        case Join():
            return _join(operator)
        case JoinOfWindows():
            return f"JoinOfWindows[{_kind(operator)} {operator.name} ON {_all(operator.on)}]"
        case Generate():
            return f"LateralView[{_words(operator.call)}]"
        case Filter():
            return f"Filter[{_all(operator.conditions)}]"
        case Having():
            return f"Having[{_all(operator.conditions)}]"
        case Aggregate():
            return f"Aggregate[{_listed(operator.keys, windowed=operator.windowed) or 'all rows'}]"
        case PartialAggregate():
            windows = operator.windows
            window = f"session with a gap of {windows.gap}" if windows.gap else f"window of {_window(windows)}"
            return f"PartialAggregate[{', '.join((window, *_each(operator.keys)))}]"
        case MergeAggregate():
            sets = f"; {operator.sets} grouping sets" if operator.sets > 1 else ""
            return f"MergeAggregate[{_listed(operator.keys, windowed=True)}{sets}]"
        case TopK():
            return _top_k(operator)
        case Project():
            return f"Project[{', '.join(map(_item, operator.items))}]"
        case Sort():
            return f"Sort[{', '.join(_each(operator.order))}]"
        case Limit():
            skipped = f", offset {operator.offset}" if operator.offset else ""
            return f"Limit[{'all' if operator.limit is None else operator.limit}{skipped}]"
        case UnionAll():
            return "UnionAll"
        case Whole():
            return "Whole[the query as it is written]"
        case Changes():
            keyed = f"; upsert by {', '.join(operator.upsert_by)}" if operator.upsert_by else ""
            return f"Changes[every {format_interval(operator.every)}{keyed}]"
        case Insert():
            return f"Insert[{operator.sink}]"


def _window(windows: Windows) -> str:
    return format_windows(
        windows.length, windows.slide, windows.offset, cumulates=windows.cumulates, months=windows.months
    )


def _join(join: Join) -> str:
    where = " at the same site" if join.same_site else ""
    if join.windows is not None:
        where = f" in each window of {_window(join.windows)}"
    name = "IntervalJoin" if join.interval else "Join" if join.windows is None else "WindowJoin"
    on = f" ON {_all(join.on)}" if join.on else ""
    return f"{name}[{_kind(join)} {join.name}{where}{on}]"


def _kind(join: Join | JoinOfWindows) -> str:
    if join.only or join.right:
        return join.only or ("FULL" if join.left else "RIGHT")
    return "LEFT" if join.left else "INNER" if join.on else "CROSS"


def _top_k(top_k: TopK) -> str:
    within = _listed(top_k.partition, windowed=top_k.windowed)
    order = ", ".join(_words(o.this) + (" DESC" if o.args.get("desc") else "") for o in top_k.order)
    return f"TopK[{top_k.k}{f' per {within}' if within else ''} by {top_k.function} over {order}]"


def _item(item: Named) -> str:
    words = _words(item.expression)
    bare = item.expression.unnest()
    own = bare.name if isinstance(bare, exp.Column | exp.Dot) else words
    return words if own == item.name else f"{words} AS {item.name}"


def _listed(keys: Iterable[Expression], *, windowed: bool) -> str:
    return ", ".join((*(["window"] if windowed else []), *_each(keys)))


def _each(parts: Iterable[Expression]) -> list[str]:
    return [_words(part) for part in parts]


def _all(conditions: Iterable[Expression]) -> str:
    return " AND ".join(_each(conditions))


def _words(node: Expression) -> str:
    text = _VERSION.sub("(", render(_as_written(node)))
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


def _as_written(node: Expression) -> Expression:
    """The expression with each call that is written in others as the query has it."""
    root = exp.Paren(this=node.copy())
    for part in list(root.walk()):
        if WRITTEN in part.meta:
            part.replace(exp.Var(this=part.meta[WRITTEN]))
    found: Expression = root.this
    return found
