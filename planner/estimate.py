"""How many rows and bytes a plan is expected to send, before anything has run.

    rows of a stream at a site   measured, else the binding's option `rows_per_second`, else 1000 rows/s
    a filter keeps               1/10 of the rows when it is an equality, else 1/3; conjuncts multiply
    a join                       as many rows as its left side
    groups of a window           100 for each key (1 without keys), at most the rows
    partials                     per source site and epoch of 1 s: the groups met in one epoch, once for each window
                                 that a row is in
    results                      per window: its groups, a third of them for each condition of HAVING, or at most k for
                                 each partition of a top-k
    bytes of a row               the sum over its columns: 1 BOOLEAN, TINYINT; 2 SMALLINT; 4 INT, FLOAT, DATE;
                                 8 BIGINT, DOUBLE, TIMESTAMP; 16 DECIMAL and windows; 20 STRING, BINARY; 40 other nested

Nothing is taken off for compression. Copies of tables are sent once and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from planner.catalog import Column
from planner.plan import DraftPlan, QueryShape, StageKind, Statistics

DEFAULT_ROWS_PER_S = 1000.0
FILTER_SELECTIVITY = 1 / 3
EQUALITY_SELECTIVITY = 1 / 10
GROUPS_PER_KEY = 100.0
EPOCH = timedelta(seconds=1)

_BYTES = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "FLOAT": 4, "DATE": 4, "DECIMAL": 16}
_BYTES |= {"BIGINT": 8, "DOUBLE": 8, "TIMESTAMP": 8, "STRING": 20, "BINARY": 20}
_WINDOW_TYPE = "STRUCT<START:TIMESTAMP"
_WINDOW_BYTES = 16
_NESTED_BYTES = 40
_UNKNOWN_BYTES = 8


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows and bytes per second."""

    rows_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What leaves each source site, and what the merge emits."""

    sources: Mapping[str, Flow]
    results: Flow | None
    """None when the sources' output is the result."""


def estimate_flows(draft: DraftPlan, statistics: Statistics) -> Estimate:
    """The expected flows of a plan."""
    source = next(stage for stage in draft.stages if stage.kind is StageKind.SOURCE)
    shape = draft.shape
    arriving = {site: rows_per_s(shape, site, statistics) * shape.selectivity for site in source.sites}
    columns = source.columns or _assumed_columns(draft)
    width = row_bytes(columns)
    sources = {site: _flow(_leaving(shape, rate), width) for site, rate in arriving.items()}
    if shape.window is None:
        return Estimate(sources, None)
    return Estimate(sources, _flow(_results_per_s(shape, sum(arriving.values())), row_bytes(draft.columns)))


def rows_per_s(shape: QueryShape, site: str, statistics: Statistics) -> float:
    """Rows of the stream per second at a site."""
    for name in (shape.relation, shape.relation.lower()):
        stats = statistics.rates.get((name, site))
        if stats is not None:
            return stats.rows_per_s
    return shape.declared_rates.get(site, DEFAULT_ROWS_PER_S)


def row_bytes(columns: Iterable[Column]) -> int:
    """Bytes of a row of these columns."""
    return sum(type_bytes(column.type) for column in columns)


def type_bytes(name: str) -> int:
    """Bytes of a value of a type; a type that is not known yet counts 8."""
    upper = name.upper().replace(" ", "")
    if not upper:
        return _UNKNOWN_BYTES
    if upper.startswith(_WINDOW_TYPE):
        return _WINDOW_BYTES
    return _BYTES.get(upper.partition("(")[0], _NESTED_BYTES)


def _assumed_columns(draft: DraftPlan) -> tuple[Column, ...]:
    if draft.recipe is None:
        return draft.columns
    partials = len(draft.recipe.keys) + len(draft.recipe.partials) + 1
    return tuple(Column(str(index), "") for index in range(partials))


def _groups(keys: int) -> float:
    return float(GROUPS_PER_KEY**keys)


def _leaving(shape: QueryShape, rate: float) -> float:
    if shape.window is None:
        return rate
    epoch_s = EPOCH.total_seconds()
    return min(rate * epoch_s, _groups(shape.keys)) * _windows_of_a_row(shape) / epoch_s


def _windows_of_a_row(shape: QueryShape) -> int:
    assert shape.window is not None
    return shape.window // (shape.slide or shape.window)


def _results_per_s(shape: QueryShape, rate: float) -> float:
    assert shape.window is not None
    window_s = shape.window.total_seconds()
    rows = min(rate * window_s, _groups(shape.keys)) * FILTER_SELECTIVITY**shape.having
    if shape.top_k is not None:
        rows = min(rows, shape.top_k * _groups(shape.top_k_keys))
    return rows * _windows_of_a_row(shape) / window_s


def _flow(rate: float, width: int) -> Flow:
    return Flow(rate, rate * width)
