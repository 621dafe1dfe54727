"""Columns that several commands print: tasks, links, and what queries share."""

from __future__ import annotations

import selat
from selat.cli.output import human
from selat.cli.output.listing import Field

TASK_FIELDS: tuple[Field[selat.TaskStatus], ...] = (
    Field("stage", lambda t: t.stage_id),
    Field("site", lambda t: t.site),
    Field("state", lambda t: t.state.value),
    Field("epochs", lambda t: t.epochs, lambda t: human.count(t.epochs), right=True),
    Field("rows_in", lambda t: t.rows_in, lambda t: human.count(t.rows_in), right=True),
    Field("rows_out", lambda t: t.rows_out, lambda t: human.count(t.rows_out), right=True),
    Field("rows_late", lambda t: t.rows_late, lambda t: human.count(t.rows_late), right=True),
    Field("in_rate", lambda t: t.rows_in_per_s, lambda t: human.rate(t.rows_in_per_s), right=True),
    Field("busy", lambda t: t.busy_ratio, lambda t: f"{t.busy_ratio:.0%}", right=True),
    Field("lag_rows", lambda t: t.lag_rows, lambda t: human.count(t.lag_rows), right=True),
    Field("state_bytes", lambda t: t.state_bytes, lambda t: human.size(t.state_bytes), right=True),
    Field("watermark", lambda t: t.watermark, lambda t: human.instant(t.watermark)),
    Field("reason", lambda t: t.reason),
)


LINK_FIELDS: tuple[Field[selat.LinkUse], ...] = (
    Field("from", lambda u: u.from_site),
    Field("to", lambda u: u.to_site),
    Field("moved_bytes", lambda u: u.bytes, lambda u: human.size(u.bytes), right=True),
    Field("epochs", lambda u: u.epochs, lambda u: human.count(u.epochs), right=True),
    Field("rate", lambda u: u.bytes_per_s, lambda u: f"{human.size(u.bytes_per_s)}/s", right=True),
)


SHARED_FIELDS: tuple[Field[selat.SharedOperator], ...] = (
    Field("task", lambda o: o.task_id),
    Field("kind", lambda o: o.kind),
    Field("site", lambda o: o.site),
    Field("queries", lambda o: ", ".join(o.queries)),
    Field("rate", lambda o: o.bytes_out_per_s, lambda o: f"{human.size(o.bytes_out_per_s)}/s", right=True),
    Field("links", lambda o: _links(o)),
    Field("moved_bytes", lambda o: _moved(o), lambda o: human.size(_moved(o)), right=True),
    Field("saved_bytes", lambda o: o.bytes_saved, lambda o: human.size(o.bytes_saved), right=True),
)


def _links(operator: selat.SharedOperator) -> str:
    return ", ".join(f"{link.from_site}->{link.to_site}" for link in operator.links)


def _moved(operator: selat.SharedOperator) -> int:
    return sum(link.bytes for link in operator.links)
