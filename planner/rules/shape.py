"""What the estimates need to know of a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.bind.logical import LogicalQuery
from planner.estimate.rates import EQUALITY_SELECTIVITY, FILTER_SELECTIVITY
from planner.graph.plan import QueryShape
from planner.relations.catalog import Relation
from planner.rules.pruning import decides_site
from planner.sql.dialect import exp

RATE_OPTION = "rows_per_second"


def query_shape(query: LogicalQuery, sites: Sequence[str]) -> QueryShape:
    layers = query.layers
    top_k = layers[-1].top_k if layers else query.top_k
    aggregates = [layer for layer in layers if layer.grouped]
    stream = query.scope.stream
    return QueryShape(
        relation=stream.relation.name,
        declared_rates=_declared_rates(stream.relation, sites),
        selectivity=selectivity_of(c for c in query.where if not decides_site(c, stream.view)),
        window=query.window.length if query.window is not None else None,
        slide=query.window.slide if query.window is not None else None,
        keys=len(query.keys) - (query.inner is not None),
        inner_windows=query.window.length // query.inner.length if query.window and query.inner else 1,
        having=len(query.having) + sum(len(layer.where) + len(layer.having) for layer in layers),
        top_k=top_k.k if top_k is not None else None,
        top_k_keys=len(top_k.partition) if top_k is not None else 0,
        result_keys=len(aggregates[-1].keys) - 1 if aggregates else None,
    )


def selectivity_of(filters: Iterable[exp.Expr]) -> float:
    """The share of rows that these conditions keep."""
    share = 1.0
    for conjunct in filters:
        share *= EQUALITY_SELECTIVITY if isinstance(conjunct.unnest(), exp.EQ) else FILTER_SELECTIVITY
    return share


def _declared_rates(relation: Relation, sites: Sequence[str]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for binding in relation.bindings:
        text = binding.options.get(RATE_OPTION, "")
        if binding.site in sites and text.replace(".", "", 1).isdecimal():
            rates[binding.site] = float(text)
    return rates
