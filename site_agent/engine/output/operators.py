"""Rows per operator of an epoch that has run: counters that Spark keeps anyway, read without another job.

Only the way from the stage's input to its output is walked, not the tables that are joined to it. Reading it costs some
30 small calls to the JVM, a few milliseconds.
"""

from __future__ import annotations

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from site_agent.engine import OperatorRows

INPUT = "CollectMetrics"
"""The node in which `ObservedInput` counts what comes in."""

_ROWS = "numOutputRows"
_KINDS = ("Aggregate", "Join", "Filter", "Generate", "Expand")
"""An operator is called by the last word of its Spark name, without how Spark runs it (hash, sort, broadcast)."""


def operator_rows(output: DataFrame) -> tuple[OperatorRows, ...]:
    """The operators of an output that was collected, from the input on."""
    way: list[OperatorRows] = []
    _walk(output._jdf.queryExecution().executedPlan(), way)
    return without_halves(way)


def without_halves(way: list[OperatorRows]) -> tuple[OperatorRows, ...]:
    """Spark cuts an aggregate in two or more; what counts is what the last one gives out."""
    aggregate = [i for i, operator in enumerate(way) if operator.name == "Aggregate"]
    return tuple(operator for i, operator in enumerate(way) if i not in aggregate[:-1])


def kind_of(name: str) -> str | None:
    """What an operator is called, by Spark's name of it; None for those that only pass rows on."""
    words = name.split()
    return next((kind for kind in _KINDS if words and words[0].endswith(kind)), None)


def _walk(node: JavaObject, way: list[OperatorRows]) -> bool:
    """Whether the input lies below the node; then the operators from there up to it are in `way`."""
    name = str(node.nodeName())
    if name == INPUT:
        return True
    children = node.children()
    if not any(_walk(children.apply(i), way) for i in range(children.size())):
        return False
    kind = kind_of(name)
    if kind is not None:
        metric = node.metrics().get(_ROWS)
        if metric.isDefined():
            way.append(OperatorRows(kind, int(metric.get().value())))
    return True
