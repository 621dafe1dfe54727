"""What a task has done: totals that survive restarts, and rates over the last minute."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from contract.figures import TaskFigures
from contract.handover import HandoverReport
from contract.tasks import TaskState
from site_agent.base.json import Json
from site_agent.channels.pace import Behind
from site_agent.engine import OperatorRows

RATE_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the query began; stored with each epoch."""

    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    bytes_out: int = 0
    rows_malformed: int = 0
    bytes_in: int = 0
    """As the input lay at the site; of tasks that read streams and tables."""
    rows_shed: int = 0
    """Left out because others waited for too long."""

    def plus(  # noqa: PLR0913 - one per count
        self,
        *,
        rows_in: int = 0,
        rows_out: int = 0,
        rows_late: int = 0,
        bytes_out: int = 0,
        rows_malformed: int = 0,
        bytes_in: int = 0,
        rows_shed: int = 0,
    ) -> Totals:
        return Totals(
            self.rows_in + rows_in,
            self.rows_out + rows_out,
            self.rows_late + rows_late,
            self.bytes_out + bytes_out,
            self.rows_malformed + rows_malformed,
            self.bytes_in + bytes_in,
            self.rows_shed + rows_shed,
        )

    def to_json(self) -> dict[str, Json]:
        return dict(asdict(self))

    @classmethod
    def from_json(cls, value: Json) -> Totals:
        """Missing or foreign values count as 0, so that an older manifest still loads."""
        known = value if isinstance(value, Mapping) else {}
        counts = {f.name: known.get(f.name, 0) for f in fields(cls)}
        return cls(**{name: count if isinstance(count, int) else 0 for name, count in counts.items()})


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished epoch."""

    at_s: float
    busy_s: float
    rows_in: int
    rows_out: int
    bytes_out: int
    held_bytes: int = 0
    """Arrow bytes that it held at most: rows taken and rows made."""
    operators: tuple[OperatorRows, ...] = ()
    waited_s: float = 0.0
    """How long its work waited for a slot, and in the slot for a CPU."""
    rows_by_bin: Mapping[int, int] = field(default_factory=dict)
    """The number of rows that it took in each bin, of those that are in bins."""


@dataclass(frozen=True, slots=True)
class Times:
    """How the time since the agent started the task went by, as far as it was not spent waiting for input."""

    useful_s: float = 0.0
    slot_s: float = 0.0
    disk_s: float = 0.0
    room_s: float = 0.0

    def plus(self, **seconds: float) -> Times:
        """With so much more of each. Raises TypeError for a time that there is not."""
        return replace(self, **{name: getattr(self, name) + more for name, more in seconds.items()})


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """One of a stage's operators: rows out since the task was started here, and over the last minute."""

    name: str
    rows_out: int
    rows_out_per_s: float


class Progress:
    """Mutable record of one task; read by the reporter, written by the task, both on the event loop."""

    def __init__(self, started_s: float) -> None:
        self.state = TaskState.STARTING
        self.reason = ""
        self.totals = Totals()
        self.watermark_us: int | None = None
        self.measured = TaskFigures()
        """Figures that tasks measure themselves; `figures` has the others too."""
        self.epochs = 0
        self.failures = 0
        self.plans = 0
        self.interval_s: float | None = None
        """Of epochs, while it is stretched for want of CPU; None: as configured."""
        self.timed: Callable[[float], None] = lambda busy_s: None
        """Told how long each epoch took."""
        self.starts_at_us: int | None = None
        self._started_s = started_s
        self._samples: deque[Sample] = deque()
        self._waited_s = self._disk_s = 0.0
        self._times = Times()
        self._operators: dict[tuple[str, int], int] = {}
        self._rows_by_bin: Counter[int] = Counter()
        """Sum over the samples."""

    def enter(self, state: TaskState, reason: str = "") -> None:
        self.state, self.reason = state, reason

    def restore(self, totals: Totals, watermark_us: int | None) -> None:
        self.totals, self.watermark_us = totals, watermark_us

    def measure(self, **figures: float) -> None:
        """Take over what was measured, by the names of `TaskFigures`. Raises TypeError for any other name."""
        self.measured = replace(self.measured, **figures)  # type: ignore[arg-type]

    def emitted(self, delay_s: float) -> None:
        """Windows are out, so long after the end of the newest one."""
        known, delay_s = self.measured, max(0.0, delay_s)
        self.measure(emit_delay_s=delay_s, emissions=known.emissions + 1, emit_delays_s=known.emit_delays_s + delay_s)

    def figures(self, now_s: float) -> TaskFigures:
        """All figures of the task as they are now."""
        totals = self.totals
        return replace(
            self.measured,
            **self._rates(now_s),
            rows_in=totals.rows_in,
            rows_out=totals.rows_out,
            rows_late=totals.rows_late,
            rows_malformed=totals.rows_malformed,
            rows_shed=totals.rows_shed,
            bytes_out=totals.bytes_out,
            input_bytes=totals.bytes_in,
            epochs=self.epochs,
            failures=self.failures,
            plans=self.plans,
            in_flight_bytes=self._in_flight_bytes(now_s),
            running_s=max(0.0, now_s - self._started_s),
            useful_s=self._times.useful_s,
            slot_s=self._times.slot_s,
            disk_s=self._times.disk_s,
            room_s=self._times.room_s,
        )

    def waited(self, seconds: float) -> None:
        """The epoch that comes to its end next has waited so much longer for a slot or a CPU."""
        self._waited_s += seconds

    def disk_waited(self, seconds: float) -> None:
        """The task has waited so long until the disk had stored something."""
        self._disk_s += seconds
        self._times = self._times.plus(disk_s=seconds)

    def room_waited(self, seconds: float) -> None:
        """The task has waited so long before an epoch, until there was room for its output."""
        self._times = self._times.plus(room_s=seconds)

    def epoch_done(self, sample: Sample) -> None:
        sample, self._waited_s = replace(sample, waited_s=self._waited_s), 0.0
        useful_s, self._disk_s = max(0.0, sample.busy_s - sample.waited_s - self._disk_s), 0.0
        self._times = self._times.plus(useful_s=useful_s, slot_s=max(0.0, sample.waited_s))
        self.epochs += 1
        self.timed(sample.busy_s)
        self._samples.append(sample)
        self._rows_by_bin.update(sample.rows_by_bin)
        for place, rows in _by_place(sample.operators).items():
            self._operators[place] = self._operators.get(place, 0) + rows
        self._forget(sample.at_s)

    def _rates(self, now_s: float) -> dict[str, Any]:
        """Over the last minute, or since the task started if that is less; 0 before the first epoch."""
        span_s = self._span_s(now_s)
        if not self._samples or span_s <= 0:
            return {}
        return {
            "rows_in_per_s": sum(s.rows_in for s in self._samples) / span_s,
            "rows_out_per_s": sum(s.rows_out for s in self._samples) / span_s,
            "bytes_out_per_s": sum(s.bytes_out for s in self._samples) / span_s,
            "busy_ratio": min(1.0, sum(s.busy_s for s in self._samples) / span_s),
            "waiting_ratio": min(1.0, sum(s.waited_s for s in self._samples) / span_s),
            "busiest_bin_ratio": max(self._rows_by_bin.values(), default=0) / max(1, self._rows_by_bin.total()),
        }

    def operators(self, now_s: float) -> tuple[OperatorStatus, ...]:
        """In the order in which rows pass them."""
        span_s = self._span_s(now_s)
        recent: dict[tuple[str, int], int] = {}
        for sample in self._samples:
            for place, rows in _by_place(sample.operators).items():
                recent[place] = recent.get(place, 0) + rows
        return tuple(
            OperatorStatus(place[0], total, recent.get(place, 0) / span_s if span_s > 0 else 0.0)
            for place, total in self._operators.items()
        )

    def _span_s(self, now_s: float) -> float:
        self._forget(now_s)
        return min(RATE_WINDOW_S, now_s - self._started_s)

    def _in_flight_bytes(self, now_s: float) -> int:
        """Arrow bytes that an epoch of the last minute held at most."""
        self._forget(now_s)
        return max((s.held_bytes for s in self._samples), default=0)

    def _forget(self, now_s: float) -> None:
        while self._samples and self._samples[0].at_s < now_s - RATE_WINDOW_S:
            self._rows_by_bin.subtract(self._samples.popleft().rows_by_bin)


def _by_place(operators: tuple[OperatorRows, ...]) -> dict[tuple[str, int], int]:
    """Rows by name and number among those of the name: Spark may leave one out of an epoch."""
    counted: dict[str, int] = {}
    rows: dict[tuple[str, int], int] = {}
    for operator in operators:
        number = counted[operator.name] = counted.get(operator.name, 0) + 1
        rows[operator.name, number] = operator.rows
    return rows


@dataclass(frozen=True, slots=True)
class TaskStatus(TaskFigures):
    """A snapshot of one task for the master, with its figures."""

    task_id: str
    query_id: str
    stage_id: str
    state: TaskState
    reason: str
    next_epoch: int = 0
    watermark_us: int | None = None
    operators: tuple[OperatorStatus, ...] = ()
    missed_inputs: tuple[str, ...] = ()
    """Channels that it was to read from their first epoch on, which is gone."""
    starts_at_us: int | None = None
    """Windows that begin earlier are left out, because it began in the middle of its inputs."""
    behind: tuple[Behind, ...] = ()
    """Queries that do not keep up with others in reading its channel."""
    handover: HandoverReport | None = None
    """It is set for a task that hands over, or takes over."""
