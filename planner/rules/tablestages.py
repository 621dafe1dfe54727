"""The stages of a batch query: MAPs over the splits of its tables, a REDUCE over what they gave.

MAP      one for each table that is read by its splits: the SELECTs below the first that gathers; of that one, partial
         aggregates, or the first rows of its order
REDUCE   the rest of that SELECT, all those above it, and joins with queries that gather
TABLE    each joined table, read by the MAPs or by the REDUCE
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.bind.outputs import Output
from planner.bind.rows import joined_rows, kept
from planner.bind.selects import TableRows, TableSelect, UnionAll
from planner.bind.tablerows import items_of, names_of
from planner.graph.expressions import columns_of, ordered_by, views_of
from planner.graph.operators import (
    Alias,
    Filter,
    MergeAggregate,
    Named,
    Operator,
    PartialAggregate,
    Project,
    Scan,
    Sort,
    TopK,
)
from planner.graph.operators import (
    UnionAll as Union,
)
from planner.graph.plan import Stage, StageInput
from planner.relations.catalog import SITE_COLUMN
from planner.rules.split import KEPT, MERGED, Splitter, column, group_columns, note_aggregates, whole_groups
from planner.rules.stages import table_stage
from planner.sql.dialect import exp, name_node
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind

MAP = "map"
REDUCE = "reduce"


@dataclass(slots=True)
class BatchStages:
    """The stages of a batch query so far."""

    tables: list[Stage] = field(default_factory=list)
    maps: list[Stage] = field(default_factory=list)
    reduce_inputs: list[StageInput] = field(default_factory=list)
    reduce: Stage | None = None
    site_read: set[str] = field(default_factory=set)
    """MAP stages that read `site`."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """In topological order."""
        assert self.reduce is not None
        return (*self.tables, *self.maps, self.reduce)

    def add_map(self, part: _Part, body: Operator, view: str) -> None:
        """A MAP whose rows the REDUCE reads from that view."""
        stage_id = f"{MAP}{len(self.maps) + 1}" if self.maps else MAP
        table = part.first.scope.stream.relation
        read = set(columns_of(part.first.read, INPUT_VIEW))
        if SITE_COLUMN in read:
            self.site_read.add(stage_id)
        self.maps.append(
            Stage(
                id=stage_id,
                kind=StageKind.MAP,
                body=body,
                pinned=part.first.sites,
                relation=table.name,
                read_columns=tuple(c.name for c in table.columns if c.name in read) or (table.columns[0].name,),
                inputs=part.inputs,
            )
        )
        self.reduce_inputs.append(StageInput(stage_id, view))

    def next_view(self) -> str:
        """For the rows of the next MAPs."""
        used = len({i.view for i in self.reduce_inputs if i.stage in {stage.id for stage in self.maps}})
        return f"{INPUT_VIEW}{used + 1}" if used else INPUT_VIEW


@dataclass(frozen=True, slots=True)
class _Part:
    """What a MAP computes of the splits of one table."""

    first: TableSelect
    """The innermost SELECT: it reads the table."""
    rows: Operator
    inputs: tuple[StageInput, ...] = ()


def batch_stages(top: TableRows) -> BatchStages:
    """The stages of SELECTs that all rules have rewritten."""
    plan = BatchStages()
    body = _whole(top, plan)
    plan.reduce = Stage(
        id=REDUCE,
        kind=StageKind.REDUCE,
        body=body,
        pinned=(),
        inputs=tuple(plan.reduce_inputs),
        appends=_appends(top),
    )
    return plan


def _appends(rows: TableRows) -> bool:
    """True when the REDUCE only names the columns of the MAPs' rows."""
    if isinstance(rows, UnionAll):
        return all(map(_appends, rows.branches))
    return not rows.ends


def _whole(rows: TableRows, plan: BatchStages) -> Operator:
    """The operators of the REDUCE that give all of these rows; adds the MAPs that it reads."""
    if isinstance(rows, UnionAll):
        return Union(tuple(_whole(branch, plan) for branch in rows.branches))
    if rows.in_reduce:
        return _above(rows, plan)
    if rows.gathers:
        return _gathered(rows, plan)
    view = plan.next_view()
    for part in _parts(rows, plan):
        plan.add_map(part, part.rows, view)
    return Project(Scan(view), names_of(rows.outputs))


def _parts(rows: TableRows, plan: BatchStages) -> list[_Part]:
    """What MAPs compute of rows that need no rows of other splits: one part for each table."""
    if isinstance(rows, UnionAll):
        return [part for branch in rows.branches for part in _parts(branch, plan)]
    items = items_of(rows.outputs)
    return [_over(part, Project(_kept_rows(rows, part.rows), items), rows) for part in _below(rows, plan)]


def _below(select: TableSelect, plan: BatchStages) -> list[_Part]:
    """The parts that the SELECT reads; adds the TABLE stages that it joins."""
    innermost = select.below is None
    below = [_Part(select, Scan(INPUT_VIEW))] if select.below is None else _parts(select.below, plan)
    for join in select.joins:
        sites = select.sites if innermost else join.member.relation.sites
        plan.tables.append(table_stage(join, select.read, sites))
    return below


def _over(part: _Part, rows: Operator, select: TableSelect) -> _Part:
    innermost = select.below is None
    inputs = tuple(StageInput(j.member.view, j.member.view, innermost and j.same_site) for j in select.joins)
    return replace(part, rows=rows, inputs=(*part.inputs, *inputs))


def _kept_rows(select: TableSelect, rows: Operator, joined: Mapping[str, Operator] | None = None) -> Operator:
    """A SELECT's rows behind its joins, lateral views and conditions.

    Args:
        select: the SELECT.
        rows: what stands first in its FROM.
        joined: what else than a view of its own name is joined, by view.
    """
    first = rows if rows == Scan(INPUT_VIEW) else Alias(rows, INPUT_VIEW)
    sources = {INPUT_VIEW: first, **{view: Alias(found, view) for view, found in (joined or {}).items()}}
    return kept(joined_rows(select.joins, sources, select.laterals), select.where)


def _gathered(select: TableSelect, plan: BatchStages) -> Operator:
    """The innermost SELECT that gathers: adds its MAPs, and returns what the REDUCE makes of their rows."""
    below, view = _below(select, plan), plan.next_view()
    if not select.grouped:
        named = _named_parts(select)
        for part in below:
            rows = Project(_kept_rows(select, part.rows), named.items)
            plan.add_map(_over(part, rows, select), _first_rows(select, named, rows), view)
        return _sorted(select, named, Scan(view))
    splitter = Splitter(select)
    order = _group_order(select, splitter)
    partials = tuple(splitter.partials.values())
    for part in below:
        columns = group_columns(select, splitter, _kept_rows(select, part.rows))
        groups = PartialAggregate(Alias(columns, KEPT), splitter.keys, partials, tuple(splitter.partials))
        plan.add_map(_over(part, columns, select), groups, view)
    merged = MergeAggregate(Scan(view), splitter.keys, partials, tuple(splitter.aggregates.values()))
    return _in_order(select, splitter.result(Alias(merged, MERGED)), order)


def _group_order(select: TableSelect, splitter: Splitter) -> tuple[exp.Ordered, ...]:
    """ORDER BY of a SELECT that groups, over its merged rows; has the splitter name all that the SELECT aggregates."""
    note_aggregates(splitter)
    found = []
    for ordered in select.order:
        output = _output_of(ordered.this, select.outputs)
        found.append(ordered_by(ordered, splitter.after_merge(ordered.this) if output is None else output))
    return tuple(found)


def _in_order(select: TableSelect, rows: Operator, order: tuple[exp.Ordered, ...]) -> Operator:
    """The rows as ORDER BY, LIMIT and OFFSET of a SELECT have them."""
    sorts = bool(order) or select.limit is not None or bool(select.offset)
    return Sort(rows, order, select.limit, select.offset) if sorts else rows


@dataclass(frozen=True, slots=True)
class _Named:
    """What a SELECT that does not group is ranked and sorted by, as columns beside its results."""

    items: tuple[Named, ...]
    """The select list, then those columns."""
    partition: tuple[exp.Expr, ...]
    rank_order: tuple[exp.Ordered, ...]
    """Of QUALIFY."""
    order: tuple[exp.Ordered, ...]
    """Of ORDER BY."""


def _named_parts(select: TableSelect) -> _Named:
    outputs, top_k = select.outputs, select.top_k
    extra: dict[str, exp.Expr] = {}

    def named(node: exp.Expr) -> exp.Expr:
        found = _output_of(node, outputs)
        if found is None:
            name = next((name for name, known in extra.items() if known == node), f"_o{len(extra)}")
            extra[name] = node
            found = column(name)
        return found

    order = tuple(ordered_by(ordered, named(ordered.this)) for ordered in select.order)
    partition: tuple[exp.Expr, ...] = ()
    rank_order: tuple[exp.Ordered, ...] = ()
    if top_k is not None:
        partition = tuple(named(part) for part in top_k.partition)
        rank_order = tuple(ordered_by(ordered, named(ordered.this)) for ordered in top_k.order)
    items = (*items_of(outputs), *(Named(name, node) for name, node in extra.items()))
    return _Named(items, partition, rank_order, order)


def _first_rows(select: TableSelect, named: _Named, rows: Operator) -> Operator:
    """The rows of one split that can be among the first rows of all splits."""
    if select.top_k is not None:
        # Which of them ORDER BY and LIMIT keep is known only when all ranks are.
        return _ranked(select, named, Alias(rows, KEPT), tuple(item.name for item in named.items))
    if select.limit is not None:
        return Sort(rows, named.order, select.limit + select.offset)
    return rows


def _sorted(select: TableSelect, named: _Named, rows: Operator) -> Operator:
    """The SELECT over the first rows of all splits."""
    names = tuple(output.name for output in select.outputs)
    if select.top_k is not None:
        found: Operator = _ranked(select, named, rows, names)
    else:
        found = Project(rows, names_of(select.outputs))
    return _in_order(select, found, named.order)


def _ranked(select: TableSelect, named: _Named, rows: Operator, names: Sequence[str]) -> Project:
    top_k = select.top_k
    assert top_k is not None
    ranked = TopK(rows, top_k.function, named.partition, named.rank_order, top_k.k)
    return Project(ranked, tuple(Named(name, exp.Column(this=name_node(name))) for name in names))


def _output_of(node: exp.Expr, outputs: Sequence[Output]) -> exp.Expr | None:
    """The result column that an expression is."""
    bare = node.unnest()
    found = next((output for output in outputs if output.expression.unnest() == bare), None)
    return exp.Column(this=name_node(found.name)) if found is not None else None


def _above(select: TableSelect, plan: BatchStages) -> Operator:
    """A SELECT that the REDUCE computes as a whole."""
    select, rows = _first_whole(select, plan)
    joined: dict[str, Operator] = {}
    for join in select.joins:
        view = join.member.view
        if join.rows is not None:
            found = _whole(join.rows, plan)
            joined[view] = Filter(Alias(found, view), join.where) if join.where else found
        else:
            plan.tables.append(table_stage(join, select.read, join.member.relation.sites))
            plan.reduce_inputs.append(StageInput(view, view))
    rows = _kept_rows(select, rows, joined)
    if select.grouped:
        splitter = Splitter(select)
        order = _group_order(select, splitter)
        groups = whole_groups(splitter, group_columns(select, splitter, rows), splitter.keys)
        return _in_order(select, splitter.result(groups), order)
    if not select.gathers:
        return Project(rows, items_of(select.outputs))
    named = _named_parts(select)
    return _sorted(select, named, Alias(Project(rows, named.items), KEPT))


def _first_whole(select: TableSelect, plan: BatchStages) -> tuple[TableSelect, Operator]:
    """What the SELECT reads first; of a table, the rows and columns that it needs."""
    if select.below is not None:
        return select, _whole(select.below, plan)
    view = plan.next_view()
    own = tuple(part for part in select.where if views_of(part) == {INPUT_VIEW})
    rest = replace(select, where=tuple(part for part in select.where if part not in own))
    names = columns_of(rest.read, INPUT_VIEW) or (select.scope.stream.relation.columns[0].name,)
    items = tuple(Named(name, exp.Column(this=name_node(name))) for name in names)
    plan.add_map(_Part(select, Scan(INPUT_VIEW)), Project(kept(Scan(INPUT_VIEW), own), items), view)
    return rest, Scan(view)
