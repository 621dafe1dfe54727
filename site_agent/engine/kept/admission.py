"""Admission of rows in memory: counted, and without the late ones, before Spark sees them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from site_agent.engine import SCATTERED_BY, SCATTERED_OF, SCATTERED_OVER, Admission


@dataclass(frozen=True, slots=True)
class Admitted:
    """Rows of an epoch that are not late, and what was counted of all of them."""

    rows: pa.Table
    rows_late: int
    max_event_time_us: int | None
    """Of all rows, late ones too."""


def admitted(rows: pa.Table, admission: Admission | None) -> Admitted | None:
    """The rows that are let in; None: their event time is of a type that only Spark converts.

    A row without an event time is late. With no watermark yet, no other row is.
    """
    if admission is None:
        return Admitted(rows, 0, None)
    found = rows.schema.get_all_field_indices(admission.event_time)
    if len(found) != 1 or rows.schema.field(found[0]).type not in _TYPES:
        return None
    instants = rows.column(found[0]).cast(pa.int64())
    newest = pc.max(instants).as_py()
    if admission.watermark_us is None:
        late = instants.null_count
        on_time = pc.is_valid(instants)
    else:
        on_time = pc.fill_null(pc.greater_equal(instants, pa.scalar(admission.watermark_us, pa.int64())), False)
        late = rows.num_rows - (pc.sum(on_time).as_py() or 0)
    if admission.share < 1:
        on_time = pc.and_(on_time, _of_share(instants, admission))
        late = rows.num_rows - (pc.sum(on_time).as_py() or 0)
    return Admitted(rows.filter(on_time) if late else rows, late, newest)


def _of_share(instants: pa.ChunkedArray, admission: Admission) -> pa.Array:
    """Return which rows are of the share that is let in; those without an event time are late anyhow."""
    found = pc.fill_null(instants, 0).to_numpy() % SCATTERED_OF * SCATTERED_BY % SCATTERED_OVER
    return pa.array(found < admission.threshold)


_TYPES = (pa.timestamp("us", tz="UTC"), pa.timestamp("us"))
"""Those of which Spark, whose time zone is UTC here, takes the microseconds as they are."""
