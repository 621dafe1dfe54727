"""The stages of a batch query: MAPs over the splits of its tables, a REDUCE over what they gave.

MAP      one for each table that is read by its splits: the blocks below the first that gathers; of that one, partial
         aggregates, or the first rows of its order
REDUCE   the rest of that block, all blocks above it, and joins with queries that gather
TABLE    each joined table, read by the MAPs or by the REDUCE
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.bind.outputs import Output
from planner.bind.rows import joined_rows, kept
from planner.bind.tableblocks import Block, Rows, UnionAll
from planner.bind.tablerows import items_of, names_of, with_laterals
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
from planner.graph.plan import Stage, StageInput, StageKind
from planner.relations.catalog import SITE_COLUMN
from planner.rules.pruning import kept_sites
from planner.rules.split import KEPT, MERGED, Splitter, column, note_aggregates, whole_groups
from planner.rules.stages import Filters, check_same_site, push_down, table_stage
from planner.sql.dialect import exp, name_node
from planner.values.names import INPUT_VIEW

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
        table = part.first.query.scope.stream.relation
        read = set(columns_of(part.first.read(), INPUT_VIEW))
        if SITE_COLUMN in read:
            self.site_read.add(stage_id)
        self.maps.append(
            Stage(
                id=stage_id,
                kind=StageKind.MAP,
                body=body,
                pinned=kept_sites(part.first.query),
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
    """Rows of the splits of one table, as a MAP has them."""

    first: Block
    """The innermost block: it reads the table."""
    rows: Operator
    inputs: tuple[StageInput, ...] = ()


def batch_stages(top: Rows) -> BatchStages:
    """The stages.

    Raises:
        InvalidDefinitionError: no site is left to read from.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
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


def _appends(rows: Rows) -> bool:
    """True when the REDUCE only names the columns of the MAPs' rows."""
    if isinstance(rows, UnionAll):
        return all(map(_appends, rows.branches))
    return not (rows.joined or rows.undivided or (rows.below is not None and rows.below.ends) or rows.gathers)


def _whole(rows: Rows, plan: BatchStages) -> Operator:
    """What the REDUCE computes to have all of these rows."""
    if isinstance(rows, UnionAll):
        return Union(tuple(_whole(branch, plan) for branch in rows.branches))
    if rows.joined or rows.undivided or (rows.below is not None and rows.below.ends):
        return _above(rows, plan)
    if rows.gathers:
        return _gathered(rows, plan)
    view = plan.next_view()
    for part in _parts(rows, plan):
        plan.add_map(part, part.rows, view)
    return Project(Scan(view), names_of(rows.outputs))


def _parts(rows: Rows, plan: BatchStages) -> list[_Part]:
    """Rows that do not need those of other splits, by the table that they come from."""
    if isinstance(rows, UnionAll):
        return [part for branch in rows.branches for part in _parts(branch, plan)]
    below, filters = _below(rows, plan), _filters(rows, plan)
    items = items_of(rows.outputs)
    return [_over(part, Project(_kept_rows(rows, part.rows, filters), items), rows) for part in below]


def _below(block: Block, plan: BatchStages) -> list[_Part]:
    return [_Part(block, Scan(INPUT_VIEW))] if block.below is None else _parts(block.below, plan)


def _over(part: _Part, rows: Operator, block: Block) -> _Part:
    innermost = block.below is None
    inputs = tuple(StageInput(j.member.view, j.member.view, innermost and j.same_site) for j in block.query.joins)
    return replace(part, rows=rows, inputs=(*part.inputs, *inputs))


def _filters(block: Block, plan: BatchStages) -> Filters:
    """Conditions by where they are evaluated; adds the TABLE stages of a block that MAPs compute."""
    innermost = block.below is None
    filters = push_down(block.query, sites_decided=innermost)
    sites = kept_sites(block.query) if innermost else ()
    for join, pushed in zip(block.query.joins, filters.tables, strict=True):
        relation_sites: Sequence[str] = join.member.relation.sites
        if innermost:
            check_same_site(join, sites, block.query)
            relation_sites = sites
        plan.tables.append(table_stage(join, pushed, block.read(), relation_sites))
    return filters


def _kept_rows(
    block: Block, rows: Operator, filters: Filters, joined: Mapping[str, Operator] | None = None
) -> Operator:
    """A block's rows behind its joins, lateral views and conditions.

    Args:
        block: the SELECT.
        rows: what stands first in its FROM.
        filters: its conditions.
        joined: what else than a view of its own name is joined, by view.
    """
    first = rows if rows == Scan(INPUT_VIEW) else Alias(rows, INPUT_VIEW)
    sources = {INPUT_VIEW: first, **{view: Alias(found, view) for view, found in (joined or {}).items()}}
    return kept(with_laterals(joined_rows(block.query.joins, filters.joins, sources), block), filters.source)


def _gathered(block: Block, plan: BatchStages) -> Operator:
    """The first block that gathers: the ends of what MAPs compute, and the beginning of what the REDUCE does."""
    below, filters, view = _below(block, plan), _filters(block, plan), plan.next_view()
    if not block.grouped:
        named = _named_parts(block)
        for part in below:
            rows = Project(_kept_rows(block, part.rows, filters), named.items)
            plan.add_map(_over(part, rows, block), _first_rows(block, named, rows), view)
        return _sorted(block, named, Scan(view))
    splitter = Splitter(block.query)
    order = _group_order(block, splitter)
    partials = tuple(splitter.partials.values())
    for part in below:
        columns = _columns(block, splitter, _kept_rows(block, part.rows, filters))
        groups = PartialAggregate(Alias(columns, KEPT), splitter.keys, partials, tuple(splitter.partials))
        plan.add_map(_over(part, columns, block), groups, view)
    merged = MergeAggregate(Scan(view), splitter.keys, partials, tuple(splitter.aggregates.values()))
    return _in_order(block, splitter.result(Alias(merged, MERGED), {}), order)


def _columns(block: Block, splitter: Splitter, rows: Operator) -> Project:
    """The keys and the columns that aggregates read."""
    items = [Named(name, key) for key, name in zip(block.query.keys, splitter.keys, strict=True)]
    items += [Named(name, node) for node, name in splitter.columns.items()]
    return Project(rows, tuple(items) or (Named("_one", exp.Literal.number(1)),))


def _group_order(block: Block, splitter: Splitter) -> tuple[exp.Ordered, ...]:
    """ORDER BY of a block that groups, over its merged rows; has the splitter name all that the block aggregates."""
    note_aggregates(splitter)
    found = []
    for ordered in block.order:
        output = _output_of(ordered.this, block.outputs)
        found.append(ordered_by(ordered, splitter.after_merge(ordered.this) if output is None else output))
    return tuple(found)


def _in_order(block: Block, rows: Operator, order: tuple[exp.Ordered, ...]) -> Operator:
    """The rows as ORDER BY, LIMIT and OFFSET of a block have them."""
    sorts = bool(order) or block.limit is not None or bool(block.offset)
    return Sort(rows, order, block.limit, block.offset) if sorts else rows


@dataclass(frozen=True, slots=True)
class _Named:
    """What a block that does not group is ranked and sorted by, as columns beside its results."""

    items: tuple[Named, ...]
    """The select list with all of them."""
    partition: tuple[exp.Expr, ...]
    rank_order: tuple[exp.Ordered, ...]
    """Of QUALIFY."""
    order: tuple[exp.Ordered, ...]
    """Of ORDER BY."""


def _named_parts(block: Block) -> _Named:
    outputs, top_k = block.outputs, block.query.top_k
    extra: dict[str, exp.Expr] = {}

    def named(node: exp.Expr) -> exp.Expr:
        found = _output_of(node, outputs)
        if found is None:
            name = next((name for name, known in extra.items() if known == node), f"_o{len(extra)}")
            extra[name] = node
            found = column(name)
        return found

    order = tuple(ordered_by(ordered, named(ordered.this)) for ordered in block.order)
    partition: tuple[exp.Expr, ...] = ()
    rank_order: tuple[exp.Ordered, ...] = ()
    if top_k is not None:
        partition = tuple(named(part) for part in top_k.partition)
        rank_order = tuple(ordered_by(ordered, named(ordered.this)) for ordered in top_k.order)
    items = (*items_of(outputs), *(Named(name, node) for name, node in extra.items()))
    return _Named(items, partition, rank_order, order)


def _first_rows(block: Block, named: _Named, rows: Operator) -> Operator:
    """Of one split: no more rows than could be among the first of all."""
    if block.query.top_k is not None:
        # Which of them ORDER BY and LIMIT keep is known only when all ranks are.
        return _ranked(block, named, Alias(rows, KEPT), tuple(item.name for item in named.items))
    if block.limit is not None:
        return Sort(rows, named.order, block.limit + block.offset)
    return rows


def _sorted(block: Block, named: _Named, rows: Operator) -> Operator:
    """The block over the first rows of all splits."""
    names = tuple(output.name for output in block.outputs)
    if block.query.top_k is not None:
        found: Operator = _ranked(block, named, rows, names)
    else:
        found = Project(rows, names_of(block.outputs))
    return _in_order(block, found, named.order)


def _ranked(block: Block, named: _Named, rows: Operator, names: Sequence[str]) -> Project:
    top_k = block.query.top_k
    assert top_k is not None
    ranked = TopK(rows, top_k.function, named.partition, named.rank_order, top_k.k)
    return Project(ranked, tuple(Named(name, exp.Column(this=name_node(name))) for name in names))


def _output_of(node: exp.Expr, outputs: Sequence[Output]) -> exp.Expr | None:
    """The result column that an expression is."""
    bare = node.unnest()
    found = next((output for output in outputs if output.expression.unnest() == bare), None)
    return exp.Column(this=name_node(found.name)) if found is not None else None


def _above(block: Block, plan: BatchStages) -> Operator:
    """A block whose rows are whole only in the REDUCE."""
    block, rows = _first_whole(block, plan)
    filters = push_down(block.query, sites_decided=False)
    joined: dict[str, Operator] = {}
    for join, pushed in zip(block.query.joins, filters.tables, strict=True):
        view = join.member.view
        if view in block.joined:
            found = _whole(block.joined[view], plan)
            joined[view] = Filter(Alias(found, view), tuple(pushed)) if pushed else found
        else:
            plan.tables.append(table_stage(join, pushed, block.read(), join.member.relation.sites))
            plan.reduce_inputs.append(StageInput(view, view))
    rows = _kept_rows(block, rows, filters, joined)
    if block.grouped:
        splitter = Splitter(block.query)
        order = _group_order(block, splitter)
        groups = whole_groups(splitter, _columns(block, splitter, rows), splitter.keys)
        return _in_order(block, splitter.result(groups, {}), order)
    if not block.gathers:
        return Project(rows, items_of(block.outputs))
    named = _named_parts(block)
    return _sorted(block, named, Alias(Project(rows, named.items), KEPT))


def _first_whole(block: Block, plan: BatchStages) -> tuple[Block, Operator]:
    """What the block reads first; of a table, the rows and columns that it needs."""
    if block.below is not None:
        return block, _whole(block.below, plan)
    view, query = plan.next_view(), block.query
    own = tuple(part for part in query.where if views_of(part) == {INPUT_VIEW})
    rest = replace(block, query=replace(query, where=tuple(part for part in query.where if part not in own)))
    names = columns_of(rest.read(), INPUT_VIEW) or (query.scope.stream.relation.columns[0].name,)
    conditions = push_down(replace(query, joins=(), where=own)).source
    items = tuple(Named(name, exp.Column(this=name_node(name))) for name in names)
    plan.add_map(_Part(block, Scan(INPUT_VIEW)), Project(kept(Scan(INPUT_VIEW), conditions), items), view)
    return rest, Scan(view)
