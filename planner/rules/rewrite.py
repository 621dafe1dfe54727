"""Rules that rewrite SELECTs, before operators and stages are made of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, TypeVar

from planner.bind.selects import Join, StreamSelect, TableRows, TableSelect, UnionAll
from planner.rules.conditions import push_conditions
from planner.rules.pruning import prune_sites
from planner.rules.spread import spread_join

S = TypeVar("S", StreamSelect, TableSelect)


class Rule(Protocol):
    """From one SELECT to one that gives the same rows; it leaves those below to themselves.

    Raises:
        PlannerError: with its place.
    """

    def __call__(self, select: S) -> S: ...


RULES: tuple[Rule, ...] = (
    spread_join,  # gives each stream of a join a SELECT of its own; the rules below see that one
    prune_sites,  # decides conditions on `site` and drops the sites where they do not hold
    push_conditions,  # moves conditions on one joined table to that table
)


def rewritten(select: StreamSelect) -> StreamSelect:
    """The SELECT and all that it is made of, behind all rules.

    Raises:
        InvalidDefinitionError: no site of a stream is left to read from.
        UnsupportedSqlError: a LEFT join on `site` with a table that a site lacks.
    """
    select = _behind_rules(select)
    return replace(
        select,
        below=None if select.below is None else replace(select.below, query=rewritten(select.below.query)),
        joins=_joins(select),
        inputs=tuple(replace(i, query=rewritten(i.query)) for i in select.inputs),
        sources=tuple(map(rewritten, select.sources)),
        layers=tuple(
            replace(layer, joins=tuple(replace(join, query=rewritten(join.query)) for join in layer.joins))
            for layer in select.layers
        ),
    )


def rewritten_tables(rows: TableRows) -> TableRows:
    """As `rewritten`, of rows of tables."""
    if isinstance(rows, UnionAll):
        return UnionAll(tuple(map(_table_select, rows.branches)))
    return _table_select(rows)


def _table_select(select: TableSelect) -> TableSelect:
    select = _behind_rules(select)
    return replace(
        select,
        below=None if select.below is None else rewritten_tables(select.below),
        joins=_joins(select),
    )


def _joins(select: StreamSelect | TableSelect) -> tuple[Join, ...]:
    """Return the joins, those with queries over tables behind all rules."""
    return tuple(
        join if join.rows is None else replace(join, rows=rewritten_tables(join.rows)) for join in select.joins
    )


def _behind_rules(select: S) -> S:
    for rule in RULES:
        select = rule(select)
    return select
