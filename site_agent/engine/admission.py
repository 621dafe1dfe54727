"""What a source task lets in, counted in the same Spark action that runs the epoch.

`Observation.get` would wait for ever for an action that collects Arrow;
the metrics are read from the executed query instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from site_agent.engine import Admission
from site_agent.engine.types import quoted

_METRICS = "selat_input"


@dataclass(frozen=True, slots=True)
class InputMetrics:
    """Well-formed rows before the query's own filters; the event time is of all of them, late ones too."""

    rows: int
    rows_late: int
    max_event_time_us: int | None
    rows_malformed: int


class ObservedInput:
    """Input rows of one epoch: counted, then without the late ones and those that `malformed_column` marks."""

    def __init__(self, rows: DataFrame, admission: Admission | None, malformed_column: str = "") -> None:
        well_formed = f"{quoted(malformed_column)} IS NULL" if malformed_column else "true"
        texts = _metric_expressions(admission, well_formed)
        self._metrics = [sf.expr(text) for text in texts]
        self._counted = rows
        if malformed_column:
            # Whether a row is malformed depends on which columns are converted: all must be, whatever the query uses.
            self._metrics.append(sf.expr(f"count({', '.join(quoted(c) for c in rows.columns)}) AS converted"))
        admitted = rows.observe(_METRICS, *self._metrics)
        if malformed_column:
            admitted = admitted.where(well_formed).drop(malformed_column)
        self.admitted: DataFrame = admitted if admission is None else admitted.where(_on_time(admission))

    def metrics(self, output: DataFrame) -> InputMetrics:
        """Of an output that was computed from the admitted rows.

        Spark drops the count together with the input when it can prove that the output is empty without it: then the
        rows are counted by themselves.
        """
        found = output._jdf.queryExecution().observedMetrics().get(_METRICS)
        row = found.get() if found.isDefined() else self._counted.agg(*self._metrics)._jdf.first()
        values = [row.get(i) for i in range(row.size())]
        return InputMetrics(int(values[0]), int(values[1] or 0), values[2], int(values[3]))


def _metric_expressions(admission: Admission | None, well_formed: str) -> tuple[str, str, str, str]:
    rows, malformed = f"count_if({well_formed}) AS rows", f"count_if(NOT ({well_formed})) AS malformed"
    if admission is None:
        return rows, "CAST(0 AS BIGINT) AS late", "CAST(NULL AS BIGINT) AS newest", malformed
    return (
        rows,
        f"count_if({well_formed} AND NOT coalesce({_on_time(admission)}, false)) AS late",
        f"max(CASE WHEN {well_formed} THEN unix_micros({_time(admission)}) END) AS newest",
        malformed,
    )


def _on_time(admission: Admission) -> str:
    if admission.watermark_us is None:
        return f"{_time(admission)} IS NOT NULL"
    return f"{_time(admission)} >= timestamp_micros({admission.watermark_us})"


def _time(admission: Admission) -> str:
    return f"CAST({quoted(admission.event_time)} AS TIMESTAMP)"
