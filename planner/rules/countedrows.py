"""Counted rows: a MAP sends rows that are equal once, with their number; the REDUCE has them as often again.

A column that only sums, averages and counts read may differ between such rows: wherever one of them goes, all go, up to
the aggregate, so there only their sum and the number that are not NULL matter. The MAP sends the mean, rounded towards
zero, and what is left over; the REDUCE gives each row the mean, and one unit more to as many as are left over. No value
is further from zero than the greatest was, so all fit the column's type, and their sum is exact.

MAP      SELECT k, count(*) AS _n, count(x) AS _c1, sum(x) DIV count(x) AS _q1, sum(x) % count(x) AS _r1 ... GROUP BY k
REDUCE   a view with the columns k and x, with _n rows for each row that came, of which _c1 have a value of x
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.graph.clientplan import ClientView
from planner.graph.expressions import cast
from planner.graph.operators import Aggregate, Definition, Named, Operator, Project, Statement, with_inputs
from planner.graph.plan import DraftPlan, Split, Stage
from planner.graph.whole import WholeScan
from planner.relations.catalog import Column, TableStatistics
from planner.relations.widths import row_bytes
from planner.rules.selectivity import counted_selectivity, drawn
from planner.rules.wholestages import NO_COLUMN, told_apart
from planner.sql.dialect import exp, name_node, quoted
from planner.values.decimals import MAX_LONG_DIGITS, digits_of
from planner.values.names import INPUT_VIEW
from planner.values.ranges import WHOLE_NUMBERS

WORTH = 0.5
"""Counted rows are sent where they take this share of the bytes, or less: the REDUCE makes the rows anew."""
IN_ARRAY = 4096
"""Rows are made by two steps of so many each, so that no array in Spark is long."""

_N, _BLOCK, _ROW = "_n", "_block", "_row"
"""No column, table or view of a user has a name that begins so."""
_EXACT = "DECIMAL(19,0)"
_ANY = {"STRING": "x", "DATE": "2000-01-01", "TIMESTAMP": "2000-01-01", "BOOLEAN": "true", "FLOAT": "0", "DOUBLE": "0"}
"""Constants that stand for any value of a column of which only NULLs matter; for other numbers it is 0."""


@dataclass(frozen=True, slots=True)
class _Tally:
    """A column that is summed or counted."""

    column: Column
    number: int
    sums: bool

    @property
    def scale(self) -> int:
        digits = digits_of(self.column.type.upper())
        return digits.scale if digits is not None else 0

    def sent(self) -> list[tuple[Named, str]]:
        """Return the columns that the MAP sends for it, with their types."""
        value = exp.Column(this=name_node(self.column.name), table=name_node(INPUT_VIEW))
        count = exp.Anonymous(this="count", expressions=[value])
        sent = [(Named(f"_c{self.number}", count), "BIGINT")]
        if self.sums:
            units: exp.Expr = value
            if self.scale:
                ten = cast(exp.Literal.string(f"1{'0' * self.scale}"), f"DECIMAL({self.scale + 1},0)")
                units = exp.Mul(this=value, expression=ten)
            total = exp.Anonymous(this="sum", expressions=[cast(units, _EXACT)])
            of = exp.Anonymous(this="nullif", expressions=[count, exp.Literal.number(0)])
            left = cast(exp.Paren(this=exp.Mod(this=total, expression=of)), "BIGINT")
            sent.append((Named(f"_q{self.number}", exp.IntDiv(this=total, expression=of)), "BIGINT"))
            sent.append((Named(f"_r{self.number}", left), "BIGINT"))
        return sent

    def value(self) -> str:
        """Return Spark SQL of a row's value in the REDUCE."""
        kind, n = self.column.type.upper(), self.number
        if not self.sums:
            made = f"CAST('{_ANY.get(kind, '0')}' AS {kind})"
        else:
            unit = f"(_q{n} + CASE WHEN {_ROW} >= abs(_r{n}) THEN 0 WHEN _r{n} < 0 THEN -1 ELSE 1 END)"
            if self.scale:
                last = f"CAST('0.{'0' * (self.scale - 1)}1' AS DECIMAL({self.scale + 1},{self.scale}))"
                unit = f"CAST({unit} AS {_EXACT}) * {last}"
            made = f"CAST({unit} AS {kind})"
        return f"CASE WHEN {_ROW} < _c{n} THEN {made} END AS {quoted(self.column.name)}"


def with_counted_rows(
    draft: DraftPlan, splits: Sequence[Split], statistics: Mapping[str, TableStatistics]
) -> DraftPlan:
    """Return the draft of a query that runs whole, with MAPs that send counted rows where these are worth it.

    Args:
        draft: in stages, with types.
        splits: of its MAPs, with their rows where sites know them.
        statistics: what is known of tables that were analysed, by name; of others nothing is guessed.
    """
    for stage in draft.map_stages if draft.whole_scans else ():
        scans = [scan for scan in draft.whole_scans if scan.stage == stage.id]
        found = statistics.get(stage.relation or "")
        rows = [split.rows for split in splits if split.stage == stage.id]
        if scans and found is not None and None not in rows and isinstance(stage.body, Project):
            keys, tallies = _shape(stage, scans)
            known = [row or 0 for row in rows]
            if (not keys or told_apart(keys)) and _is_worth(keys, tallies, known, scans, found):
                draft = _counted(draft, stage, keys, tallies)
    return draft


def _shape(stage: Stage, scans: Sequence[WholeScan]) -> tuple[list[Column], list[_Tally]]:
    """Return the columns by which rows are equal, and the others."""
    keys: list[Column] = []
    tallies: list[_Tally] = []
    for column in stage.columns:
        if column.name == NO_COLUMN:
            continue
        readers = [scan for scan in scans if column.name in scan.columns]
        counts = all(column.name in scan.counted for scan in readers)
        sums = not counts and all(column.name in (*scan.summed, *scan.counted) for scan in readers)
        kind = column.type.upper()
        if (sums and _is_exact(kind)) or (counts and (kind in _ANY or kind in WHOLE_NUMBERS or digits_of(kind))):
            tallies.append(_Tally(column, len(tallies) + 1, sums))
        else:
            keys.append(column)
    return keys, tallies


def _is_exact(kind: str) -> bool:
    """Return whether means of the type are whole numbers of 64 bits, in units of its last digit."""
    digits = digits_of(kind)
    return kind in WHOLE_NUMBERS or (digits is not None and digits.precision <= MAX_LONG_DIGITS)


def _is_worth(
    keys: Sequence[Column],
    tallies: Sequence[_Tally],
    rows: Sequence[int],
    scans: Sequence[WholeScan],
    found: TableStatistics,
) -> bool:
    """Return whether counted rows are few enough; rows of a split are taken to be drawn from all values."""
    if not all(column.name in found.distinct for column in keys):
        return False
    different = float(math.prod(max(1, found.distinct[column.name]) for column in keys))
    share = min(1.0, sum(counted_selectivity(scan.where, found) for scan in scans))
    before, after = 0.0, 0.0
    sent = [Column(named.name, kind) for tally in tallies for named, kind in tally.sent()]
    for count in rows:
        before += count * share * (row_bytes((*keys, *(tally.column for tally in tallies))) or 1)
        after += drawn(different, count * share) * row_bytes((*keys, Column(_N, "BIGINT"), *sent))
    return 0 < after <= before * WORTH


def _counted(draft: DraftPlan, stage: Stage, keys: Sequence[Column], tallies: Sequence[_Tally]) -> DraftPlan:
    assert isinstance(stage.body, Project)
    sent_as = {item.name: item.expression for item in stage.body.items}
    by = tuple(sent_as[key.name] for key in keys)
    items = [Named(key.name, column) for key, column in zip(keys, by, strict=True)]
    sent = [(Named(_N, exp.Count(this=exp.Star())), "BIGINT"), *(pair for tally in tallies for pair in tally.sent())]
    counted = replace(
        stage,
        body=Aggregate(stage.body.input, by, (*items, *(named for named, _ in sent))),
        columns=(*keys, *(Column(named.name, kind) for named, kind in sent)),
    )
    reduce = _with_rows_again(draft.stage(draft.result_stage), stage.id, keys, tallies)
    changed = {counted.id: counted, reduce.id: reduce}
    scans = tuple(replace(scan, counted=scan.stage == stage.id or scan.counted) for scan in draft.scans)
    return replace(draft, stages=tuple(changed.get(other.id, other) for other in draft.stages), scans=scans)


def _with_rows_again(reduce: Stage, sender: str, keys: Sequence[Column], tallies: Sequence[_Tally]) -> Stage:
    """Return the REDUCE reading what came under another name: the name of the view stands for the rows made of it."""
    view = next(item.view for item in reduce.inputs if item.stage == sender)
    inputs = tuple(replace(item, view=f"_{view}") if item.view == view else item for item in reduce.inputs)
    rows = _rows_again(f"_{view}", keys, tallies)
    if reduce.client is not None:
        views = (ClientView(view, rows), *reduce.client.views)
        return replace(reduce, inputs=inputs, client=replace(reduce.client, views=views))
    assert reduce.body is not None
    return replace(reduce, inputs=inputs, body=_with_definition(reduce.body, Definition(view, Statement(rows))))


def _with_definition(operator: Operator, definition: Definition) -> Operator:
    """Return the user's statement, and whatever is around it, with one more definition before its others."""
    if isinstance(operator, Statement):
        return replace(operator, definitions=(definition, *operator.definitions))
    return with_inputs(operator, lambda below: _with_definition(below, definition))


def _rows_again(view: str, keys: Sequence[Column], tallies: Sequence[_Tally]) -> str:
    """Return Spark SQL that makes of each row of a view as many rows as it counts."""
    columns = [*(quoted(key.name) for key in keys), *(tally.value() for tally in tallies)]
    blocks = f"explode(sequence(CAST(0 AS BIGINT), ({_N} - 1) DIV {IN_ARRAY}))"
    row = f"explode(sequence({_BLOCK} * {IN_ARRAY}, least({_N}, ({_BLOCK} + 1) * {IN_ARRAY}) - 1))"
    inner = f"SELECT *, {blocks} AS {_BLOCK} FROM {quoted(view)} WHERE {_N} > 0"
    return f"SELECT {', '.join(columns) or f'1 AS {NO_COLUMN}'} FROM (SELECT *, {row} AS {_ROW} FROM ({inner}))"
