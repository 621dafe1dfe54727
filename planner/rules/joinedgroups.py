"""Tables that are grouped before they are joined to a stream: their sites send partials, and sources merge these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.bind.rows import kept
from planner.bind.selects import Join, TableSelect
from planner.graph.expressions import columns_of
from planner.graph.operators import Alias, Filter, MergeAggregate, Operator, PartialAggregate, Scan
from planner.graph.plan import Stage
from planner.relations.catalog import SITE_COLUMN
from planner.rules.split import KEPT, MERGED, Splitter, group_columns, note_aggregates
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind


def group_stage(join: Join, sites: Sequence[str]) -> Stage:
    """Return the TABLE stage of such a query, which sends partials of its groups to `sites`."""
    select = _groups(join)
    table, splitter = select.scope.stream.relation, _splitter(select)
    columns = group_columns(select, splitter, kept(Scan(INPUT_VIEW), select.where))
    partials, calls = tuple(splitter.partials.values()), tuple(splitter.partials)
    read = set(columns_of(select.read, INPUT_VIEW)) - {SITE_COLUMN}
    return Stage(
        id=join.member.view,
        kind=StageKind.TABLE,
        body=PartialAggregate(Alias(columns, KEPT), splitter.keys, partials, calls),
        pinned=tuple(sorted(site for site in select.sites if site in sites or not join.same_site)),
        relation=table.name,
        read_columns=tuple(c.name for c in table.columns if c.name in read) or (table.columns[0].name,),
    )


def joined_groups(joins: Sequence[Join]) -> Mapping[str, Operator]:
    """Return what the joins of such queries read, by view: their groups, made of the partials of all sites."""
    return {join.member.view: _merged(join) for join in joins if join.rows is not None}


def _merged(join: Join) -> Operator:
    select, view = _groups(join), join.member.view
    splitter = _splitter(select)
    aggregates = tuple(splitter.aggregates.values())
    merged = MergeAggregate(Scan(view), splitter.keys, tuple(splitter.partials.values()), aggregates)
    groups = Alias(splitter.result(Alias(merged, MERGED)), view)
    return Alias(Filter(groups, join.where), view) if join.where else groups


def _groups(join: Join) -> TableSelect:
    assert isinstance(join.rows, TableSelect)
    return join.rows


def _splitter(select: TableSelect) -> Splitter:
    splitter = Splitter(select)
    note_aggregates(splitter)
    return splitter
