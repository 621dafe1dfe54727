"""The clauses that all SELECTs have, bound and checked: WHERE, GROUP BY, and what stands beside aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.bind.aggregates import check_aggregate
from planner.bind.binder import Binder, Window
from planner.bind.groupingsets import plain_keys
from planner.bind.outputs import Output
from planner.bind.scope import Scope
from planner.graph.expressions import conjuncts, first_aggregate, is_aggregate
from planner.relations.catalog import SITE_COLUMN
from planner.sql.blocks import block_nodes
from planner.sql.dialect import exp, offset_of, render, snippet
from planner.sql.refusals import refuse
from planner.sql.source import Source
from planner.values.errors import InvalidExpressionError, UnknownColumnError

WINDOW_HINT = (
    "An aggregate over a stream needs a window: GROUP BY window(ts, '10 seconds'), key, ... "
    "gives one row per window and key."
)


def site_named(tree: exp.Select, scope: Scope) -> frozenset[str]:
    """Relations whose `site` is named; Spark could not tell a bare `site` from that of a table named beside it."""
    mentions = [c for c in block_nodes(tree) if isinstance(c, exp.Column) and c.name.lower() == SITE_COLUMN]
    named = {column.table.lower() for column in mentions}
    if SITE_COLUMN in scope.using:
        return _bases(scope, None)
    others = {member.alias.lower() for member in scope.members[1:]}
    if "" in named and (named & others or len(scope.streams) > 1):
        bare = next(column for column in mentions if not column.table)
        raise UnknownColumnError(
            "site is ambiguous: " + _other_sites(scope),
            position=scope.source.position(offset_of(bare) or 0),
            found=bare.name,
            hint=f"For the stream's, write {scope.stream.alias}.site.",
        )
    if "" in named:
        named.add(scope.stream.alias.lower())
    return _bases(scope, named)


def _bases(scope: Scope, aliases: set[str] | None) -> frozenset[str]:
    return frozenset(
        m.relation.name for m in scope.members if not m.derived and (aliases is None or m.alias.lower() in aliases)
    )


def _other_sites(scope: Scope) -> str:
    return "the query joins streams" if len(scope.streams) > 1 else "the query names the site of a table too"


def is_window(key: exp.Expr, window: Window | None) -> bool:
    """Whether a key is the window itself or one of its ends, which says the same."""
    bare = key.unnest()
    if isinstance(bare, exp.Dot):
        bare = bare.this.unnest()
    return window is not None and bare == window.node


def is_grouped(tree: exp.Select) -> bool:
    return tree.args.get("group") is not None or tree.args.get("distinct") is not None


def group_keys(tree: exp.Select, outputs: tuple[Output, ...], binder: Binder) -> tuple[exp.Expr, ...]:
    """The keys of GROUP BY; SELECT DISTINCT groups by all its columns."""
    if tree.args.get("distinct") is None:
        group = tree.args.get("group")
        return _listed_keys(plain_keys(group), outputs, binder) if group is not None else ()
    for output in outputs:
        if (aggregate := first_aggregate(output.expression)) is not None:
            raise refuse(aggregate, binder.scope.source, "an aggregate needs GROUP BY beside a window", WINDOW_HINT)
    return tuple(dict.fromkeys(output.expression.unnest() for output in outputs))


def _listed_keys(items: Iterable[exp.Expr], outputs: tuple[Output, ...], binder: Binder) -> tuple[exp.Expr, ...]:
    keys: dict[exp.Expr, None] = {}
    for item in items:
        key = bound_key(item, outputs, binder)
        if first_aggregate(key) is not None:
            raise refuse(item, binder.scope.source, "an aggregate cannot be a group key", "Group by columns.")
        keys[key] = None
    return tuple(keys)


def bound_key(item: exp.Expr, outputs: tuple[Output, ...], binder: Binder) -> exp.Expr:
    """Return the expression that a key of GROUP BY means."""
    key = _ordinal(item, outputs, binder) if isinstance(item, exp.Literal) and not item.is_string else None
    return (binder.bind(item) if key is None else key).unnest()


def _ordinal(item: exp.Literal, outputs: tuple[Output, ...], binder: Binder) -> exp.Expr:
    number = int(item.name) if item.name.isdecimal() else 0
    if not 1 <= number <= len(outputs):
        raise refuse(
            item,
            binder.scope.source,
            f"there is no select item {item.name}",
            f"GROUP BY 1 means the first select item; there are {len(outputs)}.",
        )
    return outputs[number - 1].expression


def bind_where(tree: exp.Select, binder: Binder) -> tuple[exp.Expr, ...]:
    where = tree.args.get("where")
    if where is None:
        return ()
    aggregate = first_aggregate(where)
    if aggregate is not None:
        raise refuse(aggregate, binder.scope.source, "an aggregate is not possible in WHERE", "Use HAVING.")
    return conjuncts(binder.bind(where.this))


def check_group_parts(node: exp.Expr, keys: Sequence[exp.Expr], window: Window | None, source: Source) -> None:
    """Aggregates must be possible, and every column outside of them part of a key."""
    for aggregate in (part for part in node.walk() if is_aggregate(part)):
        check_aggregate(aggregate, source)
    stack = [node]
    while stack:
        part = stack.pop()
        bare = part.unnest()
        if is_window(bare, window) or bare in keys or is_aggregate(part) or _is_filtered(part):
            continue
        if isinstance(part, exp.Column):
            raise InvalidExpressionError(
                f"{part.name} is neither a group key nor in an aggregate",
                position=source.position(offset_of(part) or 0),
                found=snippet(part, source.text),
                hint=f"Add it to GROUP BY, or aggregate it, as in max({render(part.this)}).",
            )
        stack.extend(part.iter_expressions())


def _is_filtered(node: exp.Expr) -> bool:
    return isinstance(node, exp.Filter) and is_aggregate(node.this)
