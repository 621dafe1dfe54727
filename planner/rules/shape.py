"""From a SELECT to the shape by which its rows and bytes are estimated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planner.bind.selects import StreamSelect
from planner.estimate.rates import EQUALITY_SELECTIVITY, FILTER_SELECTIVITY
from planner.graph.plan import QueryShape
from planner.relations.catalog import Relation
from planner.relations.connectors.table import expected_rate
from planner.sql.dialect import exp


def query_shape(query: StreamSelect) -> QueryShape:
    """The shape of a SELECT that all rules have rewritten."""
    layers = query.layers
    top_k = layers[-1].top_k if layers else query.top_k
    aggregates = [layer for layer in layers if layer.grouped]
    stream = query.scope.stream
    return QueryShape(
        relation=stream.relation.name,
        declared_rates=_declared_rates(stream.relation, query.sites),
        selectivity=selectivity_of(_conditions(query)),
        window=query.window.length if query.window is not None else None,
        slide=query.window.slide if query.window is not None else None,
        keys=_keys(query),
        inner_windows=query.window.length // query.inner.length if query.window and query.inner else 1,
        having=len(query.having) + sum(len(layer.where) + len(layer.having) for layer in layers),
        top_k=top_k.k if top_k is not None else None,
        top_k_keys=len(top_k.partition) if top_k is not None else 0,
        result_keys=len(aggregates[-1].keys) - 1 if aggregates else None,
    )


def _keys(query: StreamSelect) -> int:
    """The keys besides the window; of rows that are ranked one more than of their partition."""
    if query.neighbours is not None:
        # Each row is sent.
        return len(query.neighbours.partition) + 2
    if query.ranks and query.top_k is not None:
        return len(query.top_k.partition) + 1
    return len(query.keys) - (query.inner is not None)


def _conditions(query: StreamSelect) -> Iterator[exp.Expr]:
    """Conditions that drop rows of the stream: its own, and those on tables of inner joins."""
    yield from query.where
    yield from (conjunct for join in query.joins if not join.keeps_unmatched for conjunct in join.where)


def selectivity_of(filters: Iterable[exp.Expr]) -> float:
    """The share of rows that these conditions keep."""
    share = 1.0
    for conjunct in filters:
        share *= EQUALITY_SELECTIVITY if isinstance(conjunct.unnest(), exp.EQ) else FILTER_SELECTIVITY
    return share


def _declared_rates(relation: Relation, sites: Sequence[str]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for binding in relation.bindings:
        rate = expected_rate(binding.options) if binding.site in sites else None
        if rate is not None:
            rates[binding.site] = rate
    return rates
