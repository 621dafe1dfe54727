"""Columns of operators, as far as they are known before Spark has seen anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.graph.operators import (
    Aggregate,
    Alias,
    CombinePartials,
    Filter,
    Generate,
    Join,
    MergeAggregate,
    Operator,
    PartialAggregate,
    Project,
    Scan,
    Sort,
    Statement,
    TopK,
    UnionAll,
    with_inputs,
)
from planner.relations.catalog import Column
from planner.sql.dialect import exp
from planner.values.names import RANK_COLUMN


def names_of(operator: Operator) -> tuple[str, ...] | None:
    """Names of the columns; None: all those of a view whose columns are not known."""
    match operator:
        case Scan():
            return tuple(column.name for column in operator.columns) or None
        case Project() | Aggregate():
            return tuple(item.name for item in operator.items)
        case PartialAggregate() | CombinePartials():
            return (*operator.keys, *(partial.name for partial in operator.partials))
        case MergeAggregate():
            return (*operator.keys, *(aggregate.name for aggregate in operator.aggregates))
        case TopK():
            below = names_of(operator.input)
            return None if below is None else (*below, RANK_COLUMN)
        case Alias() | Filter() | Sort():
            return names_of(operator.input)
        case UnionAll():
            return names_of(operator.inputs[0])
        case Join() | Generate() | Statement():
            return None


def types_of(operator: Operator) -> Mapping[str, str]:
    """Spark types of an operator's columns by name, as far as they are known: those of the view that it reads."""
    match operator:
        case Scan():
            return {column.name: column.type for column in operator.columns}
        case Alias() | Filter() | Sort() | TopK() | Generate():
            return types_of(operator.input)
        case UnionAll():
            return types_of(operator.inputs[0])
        case Project():
            below = types_of(operator.input)
            plain = ((item.name, item.expression) for item in operator.items if isinstance(item.expression, exp.Column))
            return {name: below[column.name] for name, column in plain if column.name in below}
        case _:
            return {}


def typed(operator: Operator, views: Mapping[str, tuple[Column, ...]]) -> Operator:
    """The operator over views of these columns."""
    if isinstance(operator, Scan):
        return replace(operator, columns=views[operator.view]) if operator.view in views else operator
    return with_inputs(operator, lambda part: typed(part, views))
