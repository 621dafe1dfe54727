"""What a source task lets in, counted in the same Spark action that runs the epoch.

`Observation.get` would wait for ever for an action that collects Arrow;
the metrics are read from the executed query instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from planner.values.literals import quoted_name
from site_agent.engine import SCATTERED_BY, SCATTERED_OF, SCATTERED_OVER, Admission

_METRICS = "selat_input"


@dataclass(frozen=True, slots=True)
class InputMetrics:
    """Well-formed rows before the query's own filters; the event time is of all of them, late ones too."""

    rows: int
    rows_late: int
    max_event_time_us: int | None
    rows_malformed: int

    @staticmethod
    def counted(values: Sequence[int | None]) -> InputMetrics:
        """Return the metrics that an observation's values, in the order of `_metrics`, stand for."""
        total, malformed, on_time, newest_us = (None if value is None else int(value) for value in values[:4])
        rows = (total or 0) - (malformed or 0)
        return InputMetrics(rows, 0 if on_time is None else rows - on_time, newest_us, malformed or 0)


class ObservedInput:
    """Input rows of one epoch: counted, then without the late ones and those that `malformed_column` marks."""

    def __init__(
        self,
        rows: DataFrame,
        admission: Admission | None,
        malformed_column: str = "",
        *,
        watermark: Column | None = None,
    ) -> None:
        """`watermark` is an array of one element, in the place of the admission's: one that changes in a kept plan."""
        on_time = None if admission is None else _on_time(admission, watermark)
        well_formed = sf.col(quoted_name(malformed_column)).isNull() if malformed_column else sf.lit(True)
        self._metrics = _metrics(rows.columns, malformed_column, admission, well_formed, on_time)
        self._counted = rows
        admitted = rows.observe(_METRICS, *self._metrics)
        if malformed_column:
            admitted = admitted.where(well_formed).drop(malformed_column)
        self.admitted: DataFrame = admitted if on_time is None else admitted.where(on_time)

    def metrics(self, output: DataFrame) -> InputMetrics:
        """Of an output that was computed from the admitted rows.

        Spark drops the count together with the input when it can prove that the output is empty without it: then the
        rows are counted by themselves.
        """
        found = output._jdf.queryExecution().observedMetrics().get(_METRICS)
        row = found.get() if found.isDefined() else self._counted.agg(*self._metrics)._jdf.first()
        return InputMetrics.counted([row.get(i) for i in range(row.size())])


def _metrics(
    columns: Sequence[str],
    malformed_column: str,
    admission: Admission | None,
    well_formed: Column,
    on_time: Column | None,
) -> list[Column]:
    """The totals of all rows, the malformed, and those on time, and the newest event time.

    Each row passes through all of them: they are counts of plain values, of which Spark makes less code than of
    `count_if`, and what else is wanted follows from them.
    """
    total = sf.count(sf.lit(1)).alias("total")
    if admission is None or on_time is None:
        punctual, newest_us = sf.lit(None), sf.lit(None)
    else:
        punctual = sf.count(sf.when(well_formed & on_time, sf.lit(1)))
        newest_us = sf.unix_micros(sf.max(sf.when(well_formed, _time(admission))))
    timely = [punctual.cast("bigint").alias("on_time"), newest_us.cast("bigint").alias("newest")]
    if not malformed_column:
        return [total, sf.lit(0).cast("bigint").alias("malformed"), *timely]
    # Whether a row is malformed depends on which columns are converted: all must be, whatever the query uses.
    converted = sf.call_function("count", *(sf.col(quoted_name(name)) for name in columns)).alias("converted")
    return [total, sf.count(quoted_name(malformed_column)).alias("malformed"), *timely, converted]


def _on_time(admission: Admission, watermark: Column | None) -> Column:
    if watermark is not None:
        # The index is 0 in each row, but no literal: else Spark puts the element's present value in its place.
        instant = sf.unix_micros(_time(admission))
        return instant >= sf.get(watermark, sf.pmod(instant, sf.lit(1)).cast("int"))
    if admission.watermark_us is None:
        on_time = _time(admission).isNotNull()
    else:
        on_time = _time(admission) >= sf.timestamp_micros(sf.lit(admission.watermark_us))
    if admission.share >= 1:
        return on_time
    scattered = sf.pmod(sf.unix_micros(_time(admission)), sf.lit(SCATTERED_OF)) * sf.lit(SCATTERED_BY)
    return on_time & (sf.pmod(scattered, sf.lit(SCATTERED_OVER)) < sf.lit(admission.threshold))


def _time(admission: Admission) -> Column:
    return sf.col(quoted_name(admission.event_time)).cast("timestamp")
