"""Spark SQL of operators.

Operators that fit into one SELECT share one: the rows (Scan, Join, Generate), then Filter, Aggregate, Project and Sort,
each at most once and in this order. Any other operator begins a SELECT around the one below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.functions.traits import SESSION
from planner.graph.aggregates import combined, mean_of_all, mean_over_group, means, merged
from planner.graph.bins import bin_of
from planner.graph.expressions import enclosed
from planner.graph.operators import (
    Aggregate,
    Alias,
    CombinePartials,
    Definition,
    Expression,
    Filter,
    Generate,
    Join,
    MergeAggregate,
    Named,
    Operator,
    PartialAggregate,
    Project,
    Scan,
    Sort,
    Statement,
    TopK,
    UnionAll,
    rank_over,
)
from planner.graph.schema import types_of
from planner.sql.dialect import exp, name_node, quoted, render
from planner.values.names import BIN_COLUMN, GROUP_COLUMN, RANK_COLUMN


def spark_sql(operator: Operator) -> str:
    """The statement, on one line but for what users wrote."""
    if isinstance(operator, UnionAll):
        return " UNION ALL ".join(map(_branch, operator.inputs))
    if isinstance(operator, Statement):
        return _statement(operator)
    return _select(operator).text()


def _statement(operator: Statement) -> str:
    """A text keeps its own WITH: what that names is closer than the definitions around it."""
    if not operator.definitions:
        return operator.text
    return f"WITH {', '.join(map(_definition, operator.definitions))} ({operator.text}\n)"


def _definition(known: Definition) -> str:
    columns = f"({', '.join(map(quoted, known.columns))})" if known.columns else ""
    return f"{quoted(known.name)}{columns} AS ({spark_sql(known.rows)}\n)"


@dataclass(slots=True)
class _Select:
    """The clauses of one SELECT."""

    rows: str
    """FROM with its joins and lateral views."""
    where: str = ""
    items: str = ""
    groups: str = ""
    """GROUP BY and HAVING."""
    order: str = ""

    def text(self) -> str:
        return f"SELECT {self.items or '*'} {self.rows}{self.where}{self.groups}{self.order}"

    @property
    def has_only_rows(self) -> bool:
        return not (self.where or self.items or self.groups or self.order)


def _branch(operator: Operator) -> str:
    """A branch of a UNION ALL; ORDER BY and LIMIT are its own."""
    sql = spark_sql(operator)
    sorts = isinstance(operator, Sort) and (operator.order or operator.limit is not None or operator.offset)
    return f"({sql})" if sorts else sql


def _select(operator: Operator) -> _Select:
    match operator:
        case Scan() | Alias() | Join() | Generate() | UnionAll() | Statement():
            return _Select(f"FROM {_rows(operator)}")
        case Filter():
            return _filtered(operator)
        case Project():
            return _projected(operator)
        case TopK():
            return _ranked(operator, "*", "*")
        case Sort():
            return _sorted(operator)
        case Aggregate():
            return _grouped(operator)
        case PartialAggregate():
            return _partial(operator)
        case CombinePartials():
            return _combined(operator)
        case MergeAggregate():
            return _merged(operator)


def _rows(operator: Operator) -> str:
    """What stands behind FROM or JOIN."""
    match operator:
        case Scan():
            return quoted(operator.view)
        case Alias(Scan() as scan, name):
            return f"{quoted(scan.view)} AS {quoted(name)}"
        case Alias():
            return f"({spark_sql(operator.input)}) AS {quoted(operator.name)}"
        case Join():
            left, right = _rows(operator.left_input), _rows(operator.right_input)
            return f"{left} {_kind(operator)} {right} ON {conjunction(operator.on)}"
        case Generate():
            outer = "OUTER " if operator.outer else ""
            names = ", ".join(map(quoted, operator.columns))
            return f"{_rows(operator.input)} LATERAL VIEW {outer}{render(operator.call)} {operator.view} AS {names}"
        case _:
            return f"({spark_sql(operator)}\n)" if isinstance(operator, Statement) else f"({spark_sql(operator)})"


def _kind(join: Join) -> str:
    if join.only:
        return f"LEFT {join.only} JOIN"
    side = ("FULL " if join.left else "RIGHT ") if join.right else "LEFT " if join.left else ""
    return f"{side}JOIN"


def _around(operator: Operator) -> _Select:
    """A SELECT that has only rows: those of the operator."""
    found = _select(operator)
    return found if found.has_only_rows else _Select(f"FROM ({found.text()})")


def _filtered(operator: Filter) -> _Select:
    select = _around(operator.input)
    select.where = f" WHERE {conjunction(operator.conditions)}" if operator.conditions else ""
    return select


def _projected(operator: Project) -> _Select:
    if isinstance(operator.input, TopK):
        names = ", ".join(quoted(item.name) for item in operator.items)
        return _ranked(operator.input, names, _items(operator.items))
    select = _select(operator.input)
    if select.items or select.order:
        select = _Select(f"FROM ({select.text()})")
    select.items = _items(operator.items)
    return select


def _ranked(operator: TopK, names: str, items: str) -> _Select:
    inner = _select(operator.input)
    if inner.items or inner.groups or inner.order:
        inner = _Select(f"FROM ({inner.text()})")
    inner.items = f"{items}, {render(rank_over(operator))} AS {RANK_COLUMN}"
    return _Select(f"FROM ({inner.text()}) AS ranked", f" WHERE {RANK_COLUMN} <= {operator.k}", names)


def _sorted(operator: Sort) -> _Select:
    select = _select(operator.input)
    if select.order:
        select = _Select(f"FROM ({select.text()})")
    order = f" ORDER BY {', '.join(map(render, operator.order))}" if operator.order else ""
    limit = f" LIMIT {operator.limit}" if operator.limit is not None else ""
    select.order = f"{order}{limit}{f' OFFSET {operator.offset}' if operator.offset else ''}"
    return select


def _grouped(operator: Aggregate) -> _Select:
    select = _select(operator.input)
    if select.items or select.groups or select.order:
        select = _Select(f"FROM ({select.text()})")
    # A key without a column would be taken for the number of a select item, and groups nothing.
    keys = dict.fromkeys(render(key) for key in operator.keys if key.find(exp.Column))
    select.items = _items(operator.items)
    select.groups = f" GROUP BY {', '.join(keys)}" if keys else ""
    select.groups += f" HAVING {conjunction(operator.having)}" if operator.having else ""
    return select


def _partial(operator: PartialAggregate) -> _Select:
    calls = (f"{render(call)} AS {p.name}" for p, call in zip(operator.partials, operator.calls, strict=True))
    keys = groups = operator.keys
    if operator.session is not None:
        start, end, *others = operator.keys
        keys = (f"{SESSION}.start AS {start}", f"{SESSION}.end AS {end}", *others)
        groups = (render(operator.session), *others)
    items = [*keys, *calls]
    items += _bin(operator.bins)
    rows = _rows(operator.input if isinstance(operator.input, Scan | Alias) else Alias(operator.input, "kept"))
    return _Select(f"FROM {rows}", items=", ".join(items), groups=_by(groups))


def _bin(keys: Sequence[str]) -> list[str]:
    """The item of a group's bin; none without keys."""
    return [f"{render(bin_of([exp.Column(this=name_node(key)) for key in keys]))} AS {BIN_COLUMN}"] if keys else []


def _combined(operator: CombinePartials) -> _Select:
    types = types_of(operator.input)
    items = [*operator.keys, *(f"{render(combined(p, types))} AS {p.name}" for p in operator.partials)]
    items += _bin(operator.bins)
    if operator.numbered:
        items.append(f"xxhash64({', '.join(operator.keys)}) AS {GROUP_COLUMN}")
    return _Select(f"FROM {_with_means(operator)}", items=", ".join(items), groups=_by(operator.keys))


def _merged(operator: MergeAggregate) -> _Select:
    types, partials = types_of(operator.input), {partial.name: partial for partial in operator.partials}
    calls = (f"{render(merged(a, partials, types))} AS {a.name}" for a in operator.aggregates)
    items = ", ".join([*operator.keys, *calls])
    return _Select(f"FROM {_with_means(operator)}", items=items, groups=_by(operator.keys))


def _with_means(operator: CombinePartials | MergeAggregate) -> str:
    """The partials, beside each mean the mean of its whole group."""
    rows = _rows(operator.input if isinstance(operator.input, Scan) else Alias(operator.input, "input"))
    found = [
        f"{render(mean_over_group(partial, operator.keys))} AS {mean_of_all(partial.name)}"
        for partial in means(operator.partials)
    ]
    return f"(SELECT *, {', '.join(found)} FROM {rows}) AS input" if found else rows


def _by(keys: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(keys)}" if keys else ""


def _items(items: Sequence[Named]) -> str:
    return ", ".join(map(_item, items))


def _item(item: Named) -> str:
    node = item.expression
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return render(node)
    plain = isinstance(node, exp.Column) and not node.table and node.name == item.name
    return quoted(item.name) if plain else f"{render(node)} AS {quoted(item.name)}"


def conjunction(parts: Sequence[Expression]) -> str:
    """Conditions that must all hold. To Spark `FROM t WHERE (flag)` would be the table under the alias `where`."""
    if not parts:
        return "TRUE"
    bare = (part.unnest() if _is_word(part.unnest()) else part for part in parts)
    return " AND ".join(render(part if _binds_tightly(part) else enclosed(part)) for part in bare)


def _is_word(part: Expression) -> bool:
    return isinstance(part, exp.Column | exp.Boolean)


def _binds_tightly(part: Expression) -> bool:
    return _is_word(part) or (isinstance(part, exp.Predicate) and not isinstance(part, exp.Or))
