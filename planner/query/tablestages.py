"""The stages of a batch query: a MAP over the splits of its first table, a REDUCE over what they gave.

MAP      the blocks below the first that gathers; of that one, partial aggregates, or the first rows of its order
REDUCE   the rest of that block, and all blocks above it
TABLE    each joined table, read by the MAP or by the REDUCE
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.catalog import SITE_COLUMN
from planner.merge import MergeRecipe
from planner.plan import INPUT_VIEW, Stage, StageInput, StageKind
from planner.query.expressions import columns_of
from planner.query.outputs import Output
from planner.query.pruning import kept_sites
from planner.query.split import Splitter, halved, whole_of
from planner.query.sqltext import rows_sql, where_sql
from planner.query.stages import Filters, check_same_site, push_down, table_stage
from planner.query.tablequery import Block
from planner.sql.dialect import exp, name_node, quoted, render

MAP = "map"
REDUCE = "reduce"


@dataclass(slots=True)
class BatchStages:
    """The stages of a batch query so far."""

    tables: list[Stage] = field(default_factory=list)
    map: Stage | None = None
    reduce: Stage | None = None
    recipe: MergeRecipe | None = None
    site_read: bool = False

    @property
    def stages(self) -> tuple[Stage, ...]:
        """In topological order."""
        assert self.map is not None
        assert self.reduce is not None
        return (*self.tables, self.map, self.reduce)


@dataclass(frozen=True, slots=True)
class _Ends:
    """SQL before and behind what a block reads."""

    head: str
    tail: str


def batch_stages(top: Block) -> BatchStages:
    """The stages.

    Raises:
        InvalidDefinitionError: no site is left to read from.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
    plan = BatchStages()
    chain = list(top.chain())
    gathering = next((index for index in reversed(range(len(chain))) if chain[index].gathers), None)
    mapped = chain if gathering is None else chain[gathering + 1 :]
    above = [] if gathering is None else chain[:gathering]
    rows = INPUT_VIEW
    map_inputs: list[StageInput] = []
    for block in reversed(mapped):
        rows = f"(SELECT {_items(block.query.outputs)} {_rows(block, rows, map_inputs, plan)})"
    if gathering is None:
        names = ", ".join(quoted(output.name) for output in top.query.outputs)
        sql, ends = rows[1:-1], _Ends(f"SELECT {names}", "")
    else:
        sql, ends = _gathered(chain[gathering], rows, map_inputs, plan)
    reduce_inputs: list[StageInput] = []
    for block in reversed(above):
        ends = _above(block, ends, reduce_inputs, plan)
    plan.map = _map_stage(chain[-1], sql, map_inputs, plan)
    plan.reduce = _reduce_stage(ends, reduce_inputs, plan)
    return plan


def _map_stage(first: Block, sql: str, inputs: Sequence[StageInput], plan: BatchStages) -> Stage:
    table = first.query.scope.stream.relation
    used = _read(first)
    read = set(columns_of(used, INPUT_VIEW))
    plan.site_read = SITE_COLUMN in read
    return Stage(
        id=MAP,
        kind=StageKind.MAP,
        sql=sql,
        sites=kept_sites(first.query),
        relation=table.name,
        read_columns=tuple(c.name for c in table.columns if c.name in read) or (table.columns[0].name,),
        inputs=tuple(inputs),
    )


def _reduce_stage(ends: _Ends, inputs: Sequence[StageInput], plan: BatchStages) -> Stage:
    if plan.recipe is not None:
        plan.recipe = replace(plan.recipe, head=ends.head, tail=ends.tail)
        sql = plan.recipe.sql({})
    else:
        sql = f"{ends.head} FROM {INPUT_VIEW}{ends.tail}"
    return Stage(
        id=REDUCE,
        kind=StageKind.REDUCE,
        sql=sql,
        sites=(),
        inputs=(StageInput(MAP, INPUT_VIEW), *inputs),
    )


def _read(block: Block) -> tuple[exp.Expr, ...]:
    """All bound expressions of a block that are computed of its rows."""
    query = block.query
    return (
        *(output.expression for output in query.outputs),
        *query.keys,
        *query.having,
        *(query.top_k.parts if query.top_k is not None else ()),
        *(ordered.this for ordered in block.order),
        *query.where,
        *(conjunct for join in query.joins for conjunct in join.on),
        *(lateral.call for lateral in block.laterals),
    )


def _rows(block: Block, rows: str, inputs: list[StageInput], plan: BatchStages) -> str:
    """FROM, JOIN, LATERAL VIEW and WHERE over `rows`; adds the TABLE stages."""
    query, innermost = block.query, block.below is None
    filters = push_down(query, sites_decided=innermost)
    sites = kept_sites(query) if innermost else ()
    _add_tables(block, filters, sites, plan)
    inputs += [StageInput(j.member.view, j.member.view, innermost and j.same_site) for j in query.joins]
    sources = {INPUT_VIEW: rows, **{join.member.view: join.member.view for join in query.joins}}
    text = rows_sql(query.joins, filters.joins, (), sources)
    for lateral in block.laterals:
        outer = "OUTER " if lateral.outer else ""
        names = ", ".join(quoted(column.name) for column in lateral.member.relation.columns)
        text += f" LATERAL VIEW {outer}{render(lateral.call)} {lateral.member.view} AS {names}"
    return text + where_sql(filters.source)


def _add_tables(block: Block, filters: Filters, sites: Sequence[str], plan: BatchStages) -> None:
    used = _read(block)
    for join, pushed in zip(block.query.joins, filters.tables, strict=True):
        relation_sites: Sequence[str] = join.member.relation.sites
        if block.below is None:
            check_same_site(join, sites, block.query)
            relation_sites = sites
        plan.tables.append(table_stage(join, pushed, used, relation_sites))


def _items(outputs: Sequence[Output]) -> str:
    return ", ".join(f"{render(o.expression)} AS {quoted(o.name)}" for o in outputs)


def _gathered(block: Block, rows: str, inputs: list[StageInput], plan: BatchStages) -> tuple[str, _Ends]:
    """The first block that gathers: the end of the MAP's SQL, and the beginning of the REDUCE's."""
    if not block.grouped:
        return _sorted(block, rows, inputs, plan)
    splitter, head, tail = halved(block.query)
    tail += _order_sql(block, splitter)
    keys = _keys(block)
    partials = tuple(splitter.partials.values())
    plan.recipe = MergeRecipe(keys, partials, tuple(splitter.aggregates.values()), head, tail, windowed=False)
    calls = [f"{call} AS {partial.name}" for call, partial in splitter.partials.items()]
    kept = _kept(block, splitter.columns, _rows(block, rows, inputs, plan))
    return f"SELECT {', '.join([*keys, *calls])} {kept}", _Ends(head, tail)


def _keys(block: Block) -> tuple[str, ...]:
    return tuple(f"_k{index}" for index in range(len(block.query.keys)))


def _kept(block: Block, columns: Mapping[exp.Expr, str], rows: str) -> str:
    """FROM the keys and columns that aggregates read of `rows`, grouped."""
    keys = _keys(block)
    named = [
        *(f"{render(key)} AS {name}" for key, name in zip(block.query.keys, keys, strict=True)),
        *(f"{render(column)} AS {name}" for column, name in columns.items()),
    ]
    groups = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"FROM (SELECT {', '.join(named) or '1 AS _one'} {rows}) AS kept{groups}"


def _order_sql(block: Block, splitter: Splitter) -> str:
    """ORDER BY and LIMIT of a block that groups, over its merged rows."""
    outputs = block.query.outputs
    terms = []
    for ordered in block.order:
        name = _output_of(ordered.this, outputs)
        if name is None:
            terms.append(render(_with(ordered, splitter.after_merge(ordered.this))))
        else:
            terms.append(render(_with(ordered, name)))
    return _clauses(terms, block.limit, block.offset)


def _sorted(block: Block, rows: str, inputs: list[StageInput], plan: BatchStages) -> tuple[str, _Ends]:
    """ORDER BY and LIMIT of rows: each split gives no more than its own first rows."""
    outputs = block.query.outputs
    items, terms = [_items(outputs)], []
    for index, ordered in enumerate(block.order):
        name = _output_of(ordered.this, outputs)
        if name is None:
            items.append(f"{render(ordered.this)} AS _o{index}")
            name = exp.Column(this=name_node(f"_o{index}"))
        terms.append(render(_with(ordered, name)))
    sql = f"SELECT {', '.join(items)} {_rows(block, rows, inputs, plan)}"
    if block.limit is not None:
        sql += _clauses(terms, block.limit + block.offset, 0)
    names = ", ".join(quoted(output.name) for output in outputs)
    return sql, _Ends(f"SELECT {names}", _clauses(terms, block.limit, block.offset))


def _clauses(terms: Sequence[str], limit: int | None, offset: int) -> str:
    order = f" ORDER BY {', '.join(terms)}" if terms else ""
    limited = f" LIMIT {limit}" if limit is not None else ""
    return f"{order}{limited}{f' OFFSET {offset}' if offset else ''}"


def _output_of(node: exp.Expr, outputs: Sequence[Output]) -> exp.Expr | None:
    """The result column that an expression is."""
    bare = node.unnest()
    found = next((output for output in outputs if output.expression.unnest() == bare), None)
    return exp.Column(this=name_node(found.name)) if found is not None else None


def _with(ordered: exp.Ordered, node: exp.Expr) -> exp.Ordered:
    copy = ordered.copy()
    copy.set("this", node.copy())
    assert isinstance(copy, exp.Ordered)
    return copy


def _above(block: Block, below: _Ends, inputs: list[StageInput], plan: BatchStages) -> _Ends:
    """A block over one that gathers: SQL before and behind what that reads."""
    mark = "\0"
    rows = _rows(block, mark, inputs, plan)
    if block.grouped:
        splitter, head, tail = halved(block.query)
        tail += _order_sql(block, splitter)
        whole = whole_of(splitter, head, tail)
        listed = ", ".join([*_keys(block), *whole.aggregates])
        sql = f"{head} FROM (SELECT {listed} {_kept(block, whole.columns, rows)}) AS merged{tail}"
    else:
        terms = [render(_with(o, _output_of(o.this, block.query.outputs) or o.this)) for o in block.order]
        sql = f"SELECT {_items(block.query.outputs)} {rows}{_clauses(terms, block.limit, block.offset)}"
    before, behind = sql.split(mark)
    return _Ends(f"{before}({below.head}", f"{below.tail}){behind}")
