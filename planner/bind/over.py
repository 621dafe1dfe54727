"""Functions of the rows before a row of a stream: OVER, with a frame that ends, by event time.

    avg(ms) OVER (PARTITION BY user_id ORDER BY ts ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
    sum(paid) OVER (PARTITION BY user_id ORDER BY ts RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW)
    lag(page) OVER (PARTITION BY user_id ORDER BY ts)

A row comes out when the watermark has passed it: all rows before it are there then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from planner.bind.binder import Window
from planner.bind.intervals import length_of_interval
from planner.bind.outputs import Output
from planner.bind.paired import instants
from planner.bind.selects import Neighbours, StreamSelect
from planner.functions.aggregates import MERGEABLE
from planner.functions.settled import SETTLED
from planner.sql.dialect import exp
from planner.sql.refusals import OVER_HINT, function_name, is_over, refuse

LAG = "lag"
INSTANT = timedelta(microseconds=1)
MOST_ROWS = 10_000
"""So many rows before a row a frame may have: they are kept for each key."""
_CURRENT, _PRECEDING = "CURRENT ROW", "PRECEDING"


def has_over(tree: exp.Select) -> bool:
    """Return whether the select list has functions of other rows."""
    return any(is_over(node) for item in tree.expressions for node in item.walk())


def over_rows(query: StreamSelect) -> StreamSelect:
    """Return a query whose select list has functions of the rows before a row.

    Raises:
        UnsupportedSqlError: at the select item, where it needs rows behind, or all rows before.
    """
    found = [(output, call) for output in query.outputs for call in output.expression.find_all(exp.Window)]
    return _Over(query, found[0][0]).bound([(output, call) for output, call in found])


@dataclass(frozen=True, slots=True)
class _Over:
    query: StreamSelect
    at: Output
    """An error without a place of its own is here."""

    def bound(self, calls: Sequence[tuple[Output, exp.Window]]) -> StreamSelect:
        query = self.query
        if query.join_window is not None:
            raise self._refused(self.at, "OVER over streams that are joined in windows is not possible yet")
        partitions = {tuple(part.unnest() for part in call.args.get("partition_by") or ()) for _, call in calls}
        times = {self._time(output, call) for output, call in calls}
        if len(partitions) > 1 or len(times) > 1:
            raise self._refused(self.at, "all OVER of a SELECT need the same PARTITION BY, and the same event time")
        frames = [self._frame(output, call) for output, call in calls]
        (partition,), (time,) = partitions, times
        lengths = [frame for frame in frames if isinstance(frame, timedelta)]
        rows = [frame for frame in frames if isinstance(frame, int)]
        neighbours = Neighbours(partition, max(rows, default=0), max(lengths, default=None))
        return replace(query, window=Window(time, INSTANT, INSTANT), neighbours=neighbours)

    def _time(self, output: Output, call: exp.Window) -> exp.Column:
        """Return the event time that rows are ordered by first."""
        order = call.args.get("order")
        first = order.expressions[0] if order is not None else None
        time = first.this.unnest() if first is not None else None
        known = instants(self.query.intervals, self.query.scope)
        if first is None or first.args.get("desc") or not isinstance(time, exp.Column) or time not in known:
            raise self._refused(output, "OVER over a stream needs ORDER BY its event time, ascending")
        return time

    def _frame(self, output: Output, call: exp.Window) -> int | timedelta:
        """Return how many rows before a row it needs, or of how long before."""
        function, spec = call.this, call.args.get("spec")
        bare = function.this if isinstance(function, exp.Filter | exp.IgnoreNulls) else function
        name = function_name(bare)
        if name == LAG and bare is function:
            return self._rows(output, bare.expressions[1] if len(bare.expressions) > 1 else exp.Literal.number(1))
        if name not in MERGEABLE or name in SETTLED:
            raise self._refused(output, f"{name or 'this'} is not possible with OVER over a stream")
        if (
            spec is None
            or spec.args.get("start") == "UNBOUNDED"
            or spec.args.get("start_side") not in (None, _PRECEDING)
        ):
            raise self._refused(output, "OVER over a stream needs a frame that begins so many rows, or so long, before")
        if spec.args.get("end") not in (None, _CURRENT) and spec.args.get("end_side") != _PRECEDING:
            raise self._refused(output, "rows behind a row are not there when it comes out")
        begins = spec.args["start"]
        if begins == _CURRENT:
            return 0
        if spec.args["kind"].upper() == "ROWS":
            return self._rows(output, begins)
        length = length_of_interval(begins) if isinstance(begins, exp.Interval) else None
        if length is None:
            raise self._refused(output, "the frame's length must be an interval of fixed length")
        return length

    def _rows(self, output: Output, node: exp.Expr) -> int:
        count = int(node.name) if isinstance(node, exp.Literal) and node.name.isdecimal() else -1
        if not 0 <= count <= MOST_ROWS:
            raise self._refused(output, f"the number of rows must be written out, and at most {MOST_ROWS}")
        return count

    def _refused(self, output: Output, message: str) -> Exception:
        return refuse(output.item, self.query.scope.source, message, OVER_HINT)
