"""The figures of a task: the one table from which messages, metrics, columns and documentation are made.

`TaskFigures` is the table. The statuses of tasks in agent, master and client inherit its fields. Each field carries
`Traits` (unit, meaning, ...), from which the agent's metrics, the columns of `selat query show`, `selat site show` and
EXPLAIN ANALYZE, and the table in docs/metrics.md are made.

To add a figure: add its field here, and call `Progress.measure` of the agent where the task measures it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    # Importing it loads the client, whose values have these figures.
    from selat.v1 import site_pb2

_TRAITS = "traits"


class Unit(Enum):
    """What a figure counts."""

    ROWS = "rows"
    BYTES = "bytes"
    EPOCHS = "epochs"
    ATTEMPTS = "attempts"
    PLANS = "plans"
    SECONDS = "seconds"
    ROWS_PER_S = "rows/s"
    BYTES_PER_S = "bytes/s"
    RATIO = "0 to 1"

    @property
    def whole(self) -> bool:
        """Whether figures of this unit are integers."""
        return self not in (Unit.ROWS_PER_S, Unit.BYTES_PER_S, Unit.RATIO, Unit.SECONDS)


class Fold(Enum):
    """How the figures of several tasks are combined into one."""

    SUM = "sum"
    GREATEST = "greatest"


class Shown(IntEnum):
    """The tables for people that have a figure: the one named, and all with a greater number."""

    QUERY = 1
    """`selat query show`."""
    SITE = 2
    """`selat site show`."""
    ANALYZE = 3
    """EXPLAIN ANALYZE."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What a field of `TaskFigures` says of its figure, but for its name."""

    unit: Unit
    meaning: str
    grows: bool = False
    """Whether the figure is a counter, which never decreases while the task runs."""
    fold: Fold = Fold.SUM
    metric: str = ""
    """The name of the agent's metric; empty: the figure is not a metric."""
    column: str = ""
    """The name of its column; empty: the field's name."""
    shown: Shown = Shown.ANALYZE


@dataclass(frozen=True, slots=True)
class Figure:
    """One entry of the table."""

    name: str
    traits: Traits

    @property
    def column(self) -> str:
        """The name of its column in lists, with underscores."""
        return self.traits.column or self.name

    def over(self, tasks: Iterable[TaskFigures]) -> float:
        """The figure of several tasks together; 0 for none."""
        values: list[float] = [getattr(task, self.name) for task in tasks]
        return sum(values) if self.traits.fold is Fold.SUM else max(values, default=0)


def _count(traits: Traits) -> int:
    count: int = field(default=0, metadata={_TRAITS: traits})
    return count


def _rate(traits: Traits) -> float:
    rate: float = field(default=0.0, metadata={_TRAITS: traits})
    return rate


@dataclass(frozen=True, kw_only=True)
class TaskFigures:
    """Figures of one task. Counts that grow are totals since the query began; rates are over the last minute."""

    epochs: int = _count(
        Traits(
            Unit.EPOCHS,
            "Epochs since the agent started the task.",
            grows=True,
            metric="selat_task_epochs_total",
            shown=Shown.QUERY,
        )
    )
    rows_in: int = _count(
        Traits(Unit.ROWS, "Rows that the task took.", grows=True, metric="selat_task_rows_in_total", shown=Shown.QUERY)
    )
    rows_out: int = _count(
        Traits(Unit.ROWS, "Rows that it gave out.", grows=True, metric="selat_task_rows_out_total", shown=Shown.QUERY)
    )
    rows_late: int = _count(
        Traits(
            Unit.ROWS,
            "Rows that came after the watermark.",
            grows=True,
            metric="selat_task_rows_late_total",
            shown=Shown.QUERY,
        )
    )
    rows_malformed: int = _count(
        Traits(
            Unit.ROWS,
            "Rows set aside at the site because they do not fit their columns; not in `rows_in`.",
            grows=True,
            metric="selat_task_rows_malformed_total",
        )
    )
    rows_shed: int = _count(
        Traits(
            Unit.ROWS,
            "Rows left out because others waited for too long, where the query allows that; late ones among them.",
            grows=True,
            metric="selat_task_rows_shed_total",
        )
    )
    bytes_out: int = _count(
        Traits(Unit.BYTES, "What it gave out, compressed.", grows=True, metric="selat_task_output_bytes_total")
    )
    rows_in_per_s: float = _rate(Traits(Unit.ROWS_PER_S, "Rows that it took.", column="in_rate", shown=Shown.QUERY))
    rows_out_per_s: float = _rate(Traits(Unit.ROWS_PER_S, "Rows that it gave out.", column="out_rate"))
    bytes_out_per_s: float = _rate(Traits(Unit.BYTES_PER_S, "What it gave out, compressed.", column="bytes_rate"))
    busy_ratio: float = _rate(
        Traits(
            Unit.RATIO,
            "Share of the last minute spent in epochs; of several tasks the greatest.",
            fold=Fold.GREATEST,
            metric="selat_task_busy_ratio",
            column="busy",
            shown=Shown.QUERY,
        )
    )
    waiting_ratio: float = _rate(
        Traits(
            Unit.RATIO,
            "Share of the last minute in which epochs waited for a slot or, in a slot, for a CPU; of several tasks the "
            "greatest.",
            fold=Fold.GREATEST,
            metric="selat_task_waiting_ratio",
            column="waiting",
            shown=Shown.SITE,
        )
    )
    busiest_bin_ratio: float = _rate(
        Traits(
            Unit.RATIO,
            "Of the rows that a merge took in the last minute, the share of its busiest bin; 0 where rows are in no "
            "bins; of several tasks the greatest.",
            fold=Fold.GREATEST,
            metric="selat_task_busiest_bin_ratio",
            column="busiest_bin",
        )
    )
    lag_rows: int = _count(
        Traits(
            Unit.ROWS,
            "Rows that are there and not read, if the connector can tell.",
            metric="selat_task_lag_rows",
            shown=Shown.QUERY,
        )
    )
    emit_delay_s: float = _rate(
        Traits(
            Unit.SECONDS,
            "From the end of the newest window with rows that a merge emitted until it did, by its site's clock; of "
            "several tasks the greatest.",
            fold=Fold.GREATEST,
            metric="selat_task_emit_delay_seconds",
            column="delay",
            shown=Shown.QUERY,
        )
    )
    emissions: int = _count(
        Traits(Unit.EPOCHS, "Epochs with which windows were out, since the agent started the task.", grows=True)
    )
    emit_delays_s: float = _rate(
        Traits(Unit.SECONDS, "Sum of the delays of these.", grows=True),
    )
    state_rows: int = _count(Traits(Unit.ROWS, "Rows of open windows."))
    state_bytes: int = _count(
        Traits(Unit.BYTES, "Bytes of open windows.", metric="selat_task_state_bytes", shown=Shown.QUERY)
    )
    retained_bytes: int = _count(
        Traits(Unit.BYTES, "Of its output, kept for readers.", metric="selat_task_retained_bytes", shown=Shown.SITE)
    )
    in_flight_bytes: int = _count(
        Traits(
            Unit.BYTES,
            "Most Arrow bytes that an epoch of the last minute held.",
            metric="selat_task_in_flight_bytes",
            shown=Shown.SITE,
        )
    )
    input_bytes: int = _count(
        Traits(
            Unit.BYTES,
            "Rows that it read from streams and tables, as they lay.",
            grows=True,
            metric="selat_task_input_bytes_total",
        )
    )
    failures: int = _count(
        Traits(
            Unit.ATTEMPTS,
            "Attempts that failed since the agent started the task.",
            grows=True,
            metric="selat_task_failures_total",
        )
    )
    plans: int = _count(
        Traits(
            Unit.PLANS,
            "Statements that Spark planned since the agent started the task; other epochs ran kept plans.",
            grows=True,
        )
    )
    running_s: float = _rate(
        Traits(
            Unit.SECONDS,
            "Time since the agent started the task, which the next four are of.",
            grows=True,
        )
    )
    useful_s: float = _rate(
        Traits(Unit.SECONDS, "Of that, time in epochs without the waiting that follows.", grows=True)
    )
    slot_s: float = _rate(
        Traits(Unit.SECONDS, "Of that, waiting of epochs for a slot or, in a slot, for a CPU.", grows=True)
    )
    disk_s: float = _rate(Traits(Unit.SECONDS, "Of that, waiting until the disk had stored something.", grows=True))
    room_s: float = _rate(
        Traits(Unit.SECONDS, "Of that, waiting until its readers, or the site's disk budget, had room.", grows=True)
    )


FIGURES: tuple[Figure, ...] = tuple(Figure(f.name, f.metadata[_TRAITS]) for f in fields(TaskFigures))
_NAMES = tuple(figure.name for figure in FIGURES)
_WHOLE = tuple((figure.name, figure.traits.unit.whole) for figure in FIGURES)


def values_of(task: TaskFigures) -> dict[str, Any]:
    """A task's figures by name."""
    return {name: getattr(task, name) for name in _NAMES}


def put_figures(message: site_pb2.TaskStatus, task: TaskFigures) -> None:
    """Write a task's figures into its message: each into the field of its name, or else into the map `figures`."""
    own = _own(message.DESCRIPTOR)
    for name in _NAMES:
        value = getattr(task, name)
        if name in own:
            setattr(message, name, value)
        elif value:
            message.figures[name] = value


def figures_of(message: site_pb2.TaskStatus) -> dict[str, Any]:
    """The figures of a message by name; 0 for those that its sender does not know."""
    own, others = _own(message.DESCRIPTOR), dict(message.figures)
    found = {name: getattr(message, name) if name in own else others.get(name, 0.0) for name in _NAMES}
    return {name: int(found[name]) if whole else found[name] for name, whole in _WHOLE}


@cache
def _own(message: Descriptor) -> frozenset[str]:
    """The figures for which a message has a field of their name."""
    return frozenset(name for name in _NAMES if name in message.fields_by_name)


def markdown() -> str:
    """The table of figures as docs/metrics.md has it."""
    head = ["| figure | unit | of several tasks | column | metric | meaning |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *map(_row, FIGURES)])


def _row(figure: Figure) -> str:
    traits = figure.traits
    column = f"`{figure.column}`" if traits.shown < Shown.ANALYZE else ""
    cells = (traits.unit.value, traits.fold.value, column, f"`{traits.metric}`" if traits.metric else "")
    return f"| `{figure.name}` | {' | '.join(cells)} | {traits.meaning} |"
