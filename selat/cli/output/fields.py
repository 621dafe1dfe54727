"""Columns that several commands print: tasks, links, and what queries share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import selat
from contract.figures import FIGURES, Figure, Shown, Unit
from selat.cli.output import human
from selat.cli.output.listing import Field

_WRITTEN: Mapping[Unit, Callable[[Any], str]] = {
    Unit.BYTES: human.size,
    Unit.ROWS_PER_S: human.rate,
    Unit.BYTES_PER_S: lambda rate: f"{human.size(rate)}/s",
    Unit.RATIO: lambda ratio: f"{ratio:.0%}",
    Unit.SECONDS: lambda seconds: f"{seconds:.1f} s" if seconds else "",
}
"""Writes a figure of this unit for people; figures of other units are counts."""


def _figure_field(figure: Figure) -> Field[selat.TaskStatus]:
    value = attrgetter(figure.name)
    write = _WRITTEN.get(figure.traits.unit, human.count)
    return Field(figure.column, value, lambda task: write(value(task)), right=True)


def task_fields(shown: Shown) -> tuple[Field[selat.TaskStatus], ...]:
    """The columns of tasks in `selat query show` or `selat site show`."""
    return (
        Field("stage", lambda t: t.stage_id),
        Field("site", lambda t: t.site),
        Field("state", lambda t: t.state.value),
        *(_figure_field(figure) for figure in FIGURES if figure.traits.shown <= shown),
        Field("watermark", lambda t: t.watermark, lambda t: human.instant(t.watermark)),
        Field("reason", lambda t: t.reason),
    )


STAGE_FIELDS: tuple[Field[selat.StageProgress], ...] = (
    Field("stage", lambda s: s.stage_id),
    Field("tasks", lambda s: s.tasks, lambda s: human.count(s.tasks), right=True),
    Field("ended", lambda s: s.ended, lambda s: human.count(s.ended), right=True),
    Field("rows_in", lambda s: s.rows_in, lambda s: human.count(s.rows_in), right=True),
    Field("rows_out", lambda s: s.rows_out, lambda s: human.count(s.rows_out), right=True),
    Field("bytes_out", lambda s: s.bytes_out, lambda s: human.size(s.bytes_out), right=True),
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
