"""The stages of a batch query: MAPs over the splits of its tables, a REDUCE over what they gave.

MAP      one for each table that is read by its splits: the blocks below the first that gathers; of that one, partial
         aggregates, or the first rows of its order
REDUCE   the rest of that block, all blocks above it, and joins with queries that gather
TABLE    each joined table, read by the MAPs or by the REDUCE
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.catalog import SITE_COLUMN
from planner.merge import MergeRecipe, SqlRecipe
from planner.plan import INPUT_VIEW, Stage, StageInput, StageKind
from planner.query.expressions import columns_of, views_of
from planner.query.outputs import RANK_COLUMN, Output
from planner.query.pruning import kept_sites
from planner.query.split import Splitter, halved, whole_of
from planner.query.sqltext import rows_sql, where_sql
from planner.query.stages import Filters, check_same_site, push_down, table_stage
from planner.query.tableblocks import Block, Rows, UnionAll
from planner.query.tablesql import items_sql, laterals_sql, names_sql
from planner.sql.dialect import exp, name_node, quoted, render

MAP = "map"
REDUCE = "reduce"

Pieces = tuple[str | MergeRecipe, ...]
"""SQL of the REDUCE; recipes become SQL when types are known."""

_MARK = re.compile("\0(.*?)\0")


@dataclass(slots=True)
class BatchStages:
    """The stages of a batch query so far."""

    tables: list[Stage] = field(default_factory=list)
    maps: list[Stage] = field(default_factory=list)
    reduce_inputs: list[StageInput] = field(default_factory=list)
    reduce: Stage | None = None
    recipe: SqlRecipe = field(default_factory=SqlRecipe)
    site_read: set[str] = field(default_factory=set)
    """MAP stages that read `site`."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """In topological order."""
        assert self.reduce is not None
        return (*self.tables, *self.maps, self.reduce)

    def add_map(self, part: _Part, sql: str, view: str) -> None:
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
                sql=sql,
                sites=kept_sites(part.first.query),
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
    rows: str
    """What is to be read FROM."""
    inputs: tuple[StageInput, ...] = ()


def batch_stages(top: Rows) -> BatchStages:
    """The stages.

    Raises:
        InvalidDefinitionError: no site is left to read from.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
    plan = BatchStages()
    plan.recipe = SqlRecipe(_whole(top, plan))
    plan.reduce = Stage(
        id=REDUCE,
        kind=StageKind.REDUCE,
        sql=plan.recipe.sql({}),
        sites=(),
        inputs=tuple(plan.reduce_inputs),
        appends=_appends(top),
    )
    return plan


def _appends(rows: Rows) -> bool:
    """True when the REDUCE only names the columns of the MAPs' rows."""
    if isinstance(rows, UnionAll):
        return all(map(_appends, rows.branches))
    return not (rows.joined or rows.undivided or (rows.below is not None and rows.below.ends) or rows.gathers)


def _whole(rows: Rows, plan: BatchStages) -> Pieces:
    """The SQL of the REDUCE that gives all of these rows."""
    if isinstance(rows, UnionAll):
        pieces: list[str | MergeRecipe] = []
        for branch in rows.branches:
            pieces += [*([" UNION ALL "] if pieces else []), *_bracketed(branch, plan)]
        return tuple(pieces)
    if rows.joined or rows.undivided or (rows.below is not None and rows.below.ends):
        return _above(rows, plan)
    if rows.gathers:
        return _gathered(rows, plan)
    view = plan.next_view()
    for part in _parts(rows, plan):
        plan.add_map(part, part.rows[1:-1], view)
    return (f"SELECT {names_sql(rows.outputs)} FROM {view}",)


def _bracketed(branch: Block, plan: BatchStages) -> Pieces:
    """A branch of a UNION ALL; ORDER BY and LIMIT are its own."""
    pieces = _whole(branch, plan)
    return ("(", *pieces, ")") if branch.gathers else pieces


def _parts(rows: Rows, plan: BatchStages) -> list[_Part]:
    """Rows that do not need those of other splits, by the table that they come from."""
    if isinstance(rows, UnionAll):
        return [part for branch in rows.branches for part in _parts(branch, plan)]
    items, below = items_sql(rows.outputs), _below(rows, plan)
    filters = _filters(rows, plan)
    return [_over(part, f"SELECT {items} {_rows_sql(rows, part.rows, filters)}", rows) for part in below]


def _below(block: Block, plan: BatchStages) -> list[_Part]:
    return [_Part(block, INPUT_VIEW)] if block.below is None else _parts(block.below, plan)


def _over(part: _Part, sql: str, block: Block) -> _Part:
    innermost = block.below is None
    inputs = tuple(StageInput(j.member.view, j.member.view, innermost and j.same_site) for j in block.query.joins)
    return replace(part, rows=f"({sql})", inputs=(*part.inputs, *inputs))


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


def _rows_sql(block: Block, rows: str, filters: Filters, joined: Mapping[str, str] | None = None) -> str:
    """FROM, JOIN, LATERAL VIEW and WHERE over `rows`; `joined` has what else than a view of its own name is joined."""
    query = block.query
    sources = {INPUT_VIEW: rows, **{join.member.view: join.member.view for join in query.joins}, **(joined or {})}
    return rows_sql(query.joins, filters.joins, (), sources) + laterals_sql(block) + where_sql(filters.source)


def _gathered(block: Block, plan: BatchStages) -> Pieces:
    """The first block that gathers: the ends of the MAPs' SQL, and the beginning of the REDUCE's."""
    below, filters, view = _below(block, plan), _filters(block, plan), plan.next_view()
    if not block.grouped:
        ranks = _named_parts(block)
        for part in below:
            rows = _rows_sql(block, part.rows, filters)
            plan.add_map(_over(part, "", block), _first_rows(block, ranks, rows), view)
        return (_sorted(block, ranks, f"FROM {view}"),)
    splitter, head, tail = halved(block.query)
    tail += _order_sql(block, splitter)
    keys = _keys(block)
    items = ", ".join([*keys, *(f"{call} AS {partial.name}" for call, partial in splitter.partials.items())])
    for part in below:
        kept = _kept(block, splitter.columns, _rows_sql(block, part.rows, filters))
        plan.add_map(_over(part, "", block), f"SELECT {items} {kept}", view)
    partials, aggregates = tuple(splitter.partials.values()), tuple(splitter.aggregates.values())
    return (MergeRecipe(keys, partials, aggregates, head, tail, view=view, windowed=False),)


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
    outputs = block.outputs
    terms = []
    for ordered in block.order:
        name = _output_of(ordered.this, outputs)
        if name is None:
            terms.append(render(_with(ordered, splitter.after_merge(ordered.this))))
        else:
            terms.append(render(_with(ordered, name)))
    return _clauses(terms, block.limit, block.offset)


@dataclass(frozen=True, slots=True)
class _Named:
    """What a block that does not group is ranked and sorted by, as columns beside its results."""

    items: str
    """The select list with all of them."""
    rank: str
    """OVER clause and function of QUALIFY; empty: there is none."""
    order: tuple[str, ...]
    """Terms of ORDER BY."""
    names: tuple[str, ...]
    """Of the columns that are not results."""


def _named_parts(block: Block) -> _Named:
    outputs, top_k = block.outputs, block.query.top_k
    extra: dict[str, exp.Expr] = {}

    def named(node: exp.Expr) -> exp.Expr:
        found = _output_of(node, outputs)
        if found is None:
            name = next((name for name, known in extra.items() if known == node), f"_o{len(extra)}")
            extra[name] = node
            found = exp.Column(this=name_node(name))
        return found

    order = tuple(render(_with(ordered, named(ordered.this))) for ordered in block.order)
    rank = ""
    if top_k is not None:
        partition = ", ".join(render(named(part)) for part in top_k.partition)
        by = ", ".join(render(_with(ordered, named(ordered.this))) for ordered in top_k.order)
        rank = f"{top_k.function}() OVER ({f'PARTITION BY {partition} ' if partition else ''}ORDER BY {by})"
    items = [items_sql(outputs), *(f"{render(node)} AS {name}" for name, node in extra.items())]
    return _Named(", ".join(items), rank, order, tuple(extra))


def _first_rows(block: Block, named: _Named, rows: str) -> str:
    """Of one split: no more rows than could be among the first of all."""
    sql = f"SELECT {named.items} {rows}"
    if named.rank:
        # Which of them ORDER BY and LIMIT keep is known only when all ranks are.
        return _ranked(block, named, f"FROM ({sql}) AS kept", (names_sql(block.outputs), *named.names))
    if block.limit is not None:
        sql += _clauses(named.order, block.limit + block.offset, 0)
    return sql


def _sorted(block: Block, named: _Named, rows: str) -> str:
    """The block over the first rows of all splits."""
    names, clauses = names_sql(block.outputs), _clauses(named.order, block.limit, block.offset)
    if named.rank:
        return f"{_ranked(block, named, rows, (names,))}{clauses}"
    return f"SELECT {names} {rows}{clauses}"


def _ranked(block: Block, named: _Named, rows: str, names: Iterable[str]) -> str:
    assert block.query.top_k is not None
    ranked = f"(SELECT *, {named.rank} AS {RANK_COLUMN} {rows}) AS ranked"
    return f"SELECT {', '.join(names)} FROM {ranked} WHERE {RANK_COLUMN} <= {block.query.top_k.k}"


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


def _above(block: Block, plan: BatchStages) -> Pieces:
    """A block whose rows are whole only in the REDUCE."""
    inner: dict[str, Pieces] = {}
    block, rows = _first_whole(block, plan, inner)
    filters = push_down(block.query, sites_decided=False)
    joined = {}
    for join, pushed in zip(block.query.joins, filters.tables, strict=True):
        view = join.member.view
        if view in block.joined:
            inner[view] = _whole(block.joined[view], plan)
            joined[view] = f"(SELECT * FROM ({_mark(view)}) AS {view}{where_sql(pushed)})"
        else:
            plan.tables.append(table_stage(join, pushed, block.read(), join.member.relation.sites))
            plan.reduce_inputs.append(StageInput(view, view))
    rows = _rows_sql(block, rows, filters, joined)
    if block.grouped:
        splitter, head, tail = halved(block.query)
        tail += _order_sql(block, splitter)
        whole = whole_of(splitter, head, tail)
        listed = ", ".join([*_keys(block), *whole.aggregates])
        sql = f"{head} FROM (SELECT {listed} {_kept(block, whole.columns, rows)}) AS merged{tail}"
    else:
        named = _named_parts(block)
        sql = _sorted(block, named, f"FROM (SELECT {named.items} {rows}) AS kept")
        if not block.gathers:
            sql = f"SELECT {items_sql(block.outputs)} {rows}"
    return _assembled(sql, inner)


def _first_whole(block: Block, plan: BatchStages, inner: dict[str, Pieces]) -> tuple[Block, str]:
    """What the block reads first; of a table, the rows and columns that it needs."""
    if block.below is not None:
        inner[INPUT_VIEW] = _whole(block.below, plan)
        return block, f"({_mark(INPUT_VIEW)})"
    view, query = plan.next_view(), block.query
    own = tuple(part for part in query.where if views_of(part) == {INPUT_VIEW})
    rest = replace(block, query=replace(query, where=tuple(part for part in query.where if part not in own)))
    names = columns_of(rest.read(), INPUT_VIEW) or (query.scope.stream.relation.columns[0].name,)
    kept = push_down(replace(query, joins=(), where=own)).source
    sql = f"SELECT {', '.join(map(quoted, names))} FROM {INPUT_VIEW}{where_sql(kept)}"
    plan.add_map(_Part(block, INPUT_VIEW), sql, view)
    return rest, view


def _mark(name: str) -> str:
    return f"\0{name}\0"


def _assembled(sql: str, inner: Mapping[str, Pieces]) -> Pieces:
    """The SQL with that of its marked parts."""
    pieces: list[str | MergeRecipe] = []
    for index, text in enumerate(_MARK.split(sql)):
        pieces += inner[text] if index % 2 else [text]
    return tuple(pieces)
