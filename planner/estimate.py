"""How many rows and bytes a plan is expected to send, before anything has run.

    rows of a stream at a site   measured, else the binding's option `rows_per_second`, else 1000 rows/s
    a filter keeps               1/10 of the rows when it is an equality, else 1/3; conjuncts multiply
    a join with a table          as many rows as its left side
    a join of streams            as many rows as the largest of them has in a window
    a join of rows of windows    as many rows as the largest of them has in a window
    groups of a window           100 for each key (1 without keys), in each of the windows that it is made up of;
                                 at most the rows
    partials                     per source site and epoch of 1 s: the groups met in one epoch, once for each window
                                 that a row is in
    results                      per window: its groups, at most those of an aggregate over them, a third of them for
                                 each condition of HAVING or of a query over them, or at most k for each partition of a
                                 top-k
    bytes of a row               the sum over its columns: 1 BOOLEAN, TINYINT; 2 SMALLINT; 4 INT, FLOAT, DATE;
                                 8 BIGINT, DOUBLE, TIMESTAMP; 16 DECIMAL and windows; 20 STRING, BINARY; 40 other nested

Nothing is taken off for compression. Copies of tables are sent once and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from planner.catalog import Column
from planner.plan import INPUT_VIEW, DraftPlan, JoinShape, QueryShape, Stage, StageKind, Statistics

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

    def __add__(self, other: Flow) -> Flow:
        return Flow(self.rows_per_s + other.rows_per_s, self.bytes_per_s + other.bytes_per_s)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What leaves the sites of the sources of one result stage, and what a merge emits."""

    stage: str
    """The result stage."""
    sources: Mapping[str, Flow]
    """By site; several sources at a site are added up."""
    results: Flow | None
    """None when the sources' output is the result."""


def estimate_flows(draft: DraftPlan, statistics: Statistics) -> tuple[Estimate, ...]:
    """The expected flows of a plan, by result stage."""
    return tuple(_estimate(draft, draft.stage(stage_id), statistics) for stage_id in draft.result_stages)


def _estimate(draft: DraftPlan, last: Stage, statistics: Statistics) -> Estimate:
    join = draft.joins.get(last.id)
    if join is not None:
        return _of_join(draft, last, join, statistics)
    merges = last.kind is StageKind.MERGE
    sources = [(draft.stage(i.stage), i.view) for i in last.inputs if i.stage in draft.shapes]
    if not merges:
        sources = [(last, INPUT_VIEW)]
    leaving: dict[str, Flow] = {}
    arriving: dict[str, float] = {}
    shapes: dict[str, QueryShape] = {}
    for source, view in sources:
        shape = draft.shapes[source.id]
        shapes.setdefault(view, shape)
        width = row_bytes(source.columns or _assumed_columns(draft, last))
        for site in source.sites:
            rate = rows_per_s(shape, site, statistics) * shape.selectivity
            arriving[view] = arriving.get(view, 0.0) + rate
            sent = _leaving(shape, rate) * (_copies(last) if shape.window is None else 1)
            leaving[site] = leaving.get(site, Flow(0.0, 0.0)) + _flow(sent, width)
    if not merges:
        return Estimate(last.id, leaving, None)
    grouped = [(view, shape) for view, shape in shapes.items() if shape.window is not None]
    results = max(_results_per_s(shape, arriving.get(view, 0.0)) for view, shape in grouped)
    return Estimate(last.id, leaving, _flow(results, row_bytes(draft.columns)))


def _copies(last: Stage) -> int:
    """How often a row is sent to a merge that takes rows: once for each window that it is in."""
    return last.merge.window // last.merge.period if last.merge is not None else 1


def _of_join(draft: DraftPlan, last: Stage, join: JoinShape, statistics: Statistics) -> Estimate:
    """Rows of each stream leave its sites once for each window that they are in; none are combined before the join."""
    copies = join.window // join.slide
    arriving: list[float] = []
    leaving: dict[str, Flow] = {}
    for stage in (draft.stage(i.stage) for i in last.inputs if i.stage in draft.shapes):
        shape = draft.shapes[stage.id]
        rates = {site: rows_per_s(shape, site, statistics) * shape.selectivity for site in stage.sites}
        width = row_bytes(stage.columns or tuple(Column(name, "") for name in stage.read_columns))
        for site, rate in rates.items():
            leaving[site] = leaving.get(site, Flow(0.0, 0.0)) + _flow(rate * copies, width)
        arriving.append(sum(rates.values()))
    joined = max(arriving) * join.selectivity
    results = joined * copies if join.result.window is None else _results_per_s(join.result, joined)
    return Estimate(last.id, leaving, _flow(results, row_bytes(draft.columns)))


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


def _assumed_columns(draft: DraftPlan, last: Stage) -> tuple[Column, ...]:
    recipe = draft.recipes.get(last.id)
    if recipe is None:
        return draft.columns
    return tuple(Column(str(index), "") for index in range(len(recipe.keys) + len(recipe.partials) + 1))


def _groups(keys: int) -> float:
    return float(GROUPS_PER_KEY**keys)


def _leaving(shape: QueryShape, rate: float) -> float:
    if shape.window is None:
        return rate
    epoch_s = EPOCH.total_seconds()
    # An epoch is shorter than any window, so its rows are in few of those that a longer one is made up of.
    return min(rate * epoch_s, _groups(shape.keys)) * _windows_of_a_row(shape) / epoch_s


def _windows_of_a_row(shape: QueryShape) -> int:
    assert shape.window is not None
    return shape.window // (shape.slide or shape.window)


def _results_per_s(shape: QueryShape, rate: float) -> float:
    assert shape.window is not None
    window_s = shape.window.total_seconds()
    rows = min(rate * window_s, _groups(shape.keys) * shape.inner_windows)
    if shape.result_keys is not None:
        rows = min(rows, _groups(shape.result_keys))
    rows *= FILTER_SELECTIVITY**shape.having
    if shape.top_k is not None:
        rows = min(rows, shape.top_k * _groups(shape.top_k_keys))
    return rows * _windows_of_a_row(shape) / window_s


def _flow(rate: float, width: int) -> Flow:
    return Flow(rate, rate * width)
