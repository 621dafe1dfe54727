"""An agent's metrics: the table of them, and the code that fills it from the present state of the sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from contract.figures import FIGURES
from contract.tasks import TaskState
from machine.description import package_version
from machine.durations import Distribution
from machine.metrics import Family, Kind, Metric, Sheet
from site_agent.agent.measures import Measured
from site_agent.tasks.progress import TaskStatus

ROLE = "agent"

_US_PER_S = 1_000_000
_LAST_WATERMARK_S = 253_402_300_800
"""The year 10000: a channel that has ended has a later watermark, which is not exported."""

_TASK_STATES = tuple(state.value for state in TaskState)

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_T, _S, _L, _P = ("query", "stage", "site"), ("site",), ("from", "to"), ("site", "stream")

AGENT_METRICS: tuple[Metric, ...] = (
    Metric("selat_build_info", _GAUGE, ("role", "version"), "", "1; the labels say what runs."),
    Metric("selat_agent_ready", _GAUGE, _S, "", "1 when Spark is warm, the master knows the agent and its disk works."),
    Metric("selat_assignment_version", _GAUGE, _S, "", "Version of the assignment that is in force."),
    Metric(
        "selat_task_state",
        _GAUGE,
        (*_T, "state"),
        "",
        "Tasks of the stage in that state: 0 or 1, but of batch queries.",
    ),
    *(
        Metric(f.traits.metric, _COUNTER if f.traits.grows else _GAUGE, _T, f.traits.unit.value, f.traits.meaning)
        for f in FIGURES
        if f.traits.metric
    ),
    Metric("selat_task_watermark_timestamp_seconds", _GAUGE, _T, "seconds", "Event time up to which it is complete."),
    Metric("selat_epoch_duration_seconds", _HISTOGRAM, ("site", "kind"), "seconds", "Epochs, by kind of stage."),
    Metric("selat_disk_free_bytes", _GAUGE, _S, "bytes", "Free on the disk of the site's directory."),
    Metric("selat_disk_kept_bytes", _GAUGE, _S, "bytes", "What the agent keeps there."),
    Metric("selat_disk_budget_bytes", _GAUGE, _S, "bytes", "`--disk-budget-bytes`, where it is given."),
    Metric("selat_agent_resident_bytes", _GAUGE, (), "bytes", "Resident memory of the Python process."),
    Metric("selat_jvm_resident_bytes", _GAUGE, (), "bytes", "Resident memory of the JVM and other children."),
    Metric("selat_jvm_heap_used_bytes", _GAUGE, (), "bytes", "Objects and garbage."),
    Metric("selat_jvm_heap_committed_bytes", _GAUGE, (), "bytes", "Heap taken from the system."),
    Metric("selat_jvm_heap_max_bytes", _GAUGE, (), "bytes", "How far the heap may grow."),
    Metric("selat_push_log_size_bytes", _GAUGE, _P, "bytes", "The log of a pushed stream."),
    Metric("selat_push_log_limit_bytes", _GAUGE, _P, "bytes", "Its option `retention_bytes`."),
    Metric("selat_push_rows_total", _COUNTER, _P, "rows", "Rows that were ever stored in it."),
    Metric("selat_push_blocked", _GAUGE, _P, "", "1 when nothing can be pushed to it."),
    Metric("selat_link_received_bytes_total", _COUNTER, _L, "bytes", "Received over the link since the start."),
    Metric("selat_link_received_epochs_total", _COUNTER, _L, "epochs", "Received over the link since the start."),
)


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """One site as it is now. Figures that take time to measure (disk, memory, logs) are those of its last report."""

    site: str
    ready: bool = False
    assignment_version: int = 0
    tasks: Sequence[TaskStatus] = ()
    measured: Measured = field(default_factory=Measured)
    received: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Bytes and epochs received, by the site that sent them."""
    epochs: Mapping[tuple[str, ...], Distribution] = field(default_factory=dict)
    """By kind of stage."""


class AgentMetrics:
    """Fills the table for all sites of a process; called on the event loop."""

    def __init__(self, sites: Iterable[Callable[[], SiteFigures]]) -> None:
        self._sites = tuple(sites)

    def families(self) -> Sequence[Family]:
        """All families as they are now."""
        sheet = Sheet(AGENT_METRICS)
        sheet.put("selat_build_info", 1, ROLE, package_version("selat"))
        figures = [look() for look in self._sites]
        for site in figures:
            put_site(sheet, site)
        if figures:
            put_memory(sheet, figures[0].measured)
        return sheet.families()


def put_site(sheet: Sheet, figures: SiteFigures) -> None:
    """Add a site's series."""
    site, disk = figures.site, figures.measured.disk
    sheet.put("selat_agent_ready", float(figures.ready), site)
    sheet.put("selat_assignment_version", figures.assignment_version, site)
    for tasks in _by_stage(figures.tasks):
        put_stage(sheet, tasks, site)
    for labels, found in figures.epochs.items():
        sheet.put_durations("selat_epoch_duration_seconds", {(site, *labels): found})
    if disk.free_bytes:
        sheet.put("selat_disk_free_bytes", disk.free_bytes, site)
        sheet.put("selat_disk_kept_bytes", disk.used_bytes, site)
    if disk.budget_bytes:
        sheet.put("selat_disk_budget_bytes", disk.budget_bytes, site)
    for log in figures.measured.logs:
        sheet.put("selat_push_log_size_bytes", log.size_bytes, site, log.stream)
        sheet.put("selat_push_log_limit_bytes", log.limit_bytes, site, log.stream)
        sheet.put("selat_push_rows_total", log.rows_stored, site, log.stream)
        sheet.put("selat_push_blocked", float(bool(log.reason)), site, log.stream)
    for source, (size_bytes, epochs) in figures.received.items():
        sheet.put("selat_link_received_bytes_total", size_bytes, source, site)
        sheet.put("selat_link_received_epochs_total", epochs, source, site)


def put_stage(sheet: Sheet, tasks: Sequence[TaskStatus], site: str) -> None:
    """Add the series of a stage's tasks at a site: a stream query has one such task, a batch query any number."""
    labels = (tasks[0].query_id, tasks[0].stage_id, site)
    counts = Counter(task.state.value for task in tasks)
    for state in _TASK_STATES:
        sheet.put("selat_task_state", counts[state], *labels, state)
    for figure in FIGURES:
        if figure.traits.metric:
            sheet.put(figure.traits.metric, figure.over(tasks), *labels)
    marks = [task.watermark_us for task in tasks if task.watermark_us is not None]
    if marks and min(marks) / _US_PER_S < _LAST_WATERMARK_S:
        sheet.put("selat_task_watermark_timestamp_seconds", min(marks) / _US_PER_S, *labels)


def _by_stage(tasks: Iterable[TaskStatus]) -> Iterable[Sequence[TaskStatus]]:
    stages: dict[tuple[str, str], list[TaskStatus]] = {}
    for task in tasks:
        stages.setdefault((task.query_id, task.stage_id), []).append(task)
    return stages.values()


def put_memory(sheet: Sheet, measured: Measured) -> None:
    """Add the series of the process, which all its sites share."""
    memory = measured.memory
    if not memory.total_bytes:
        return
    sheet.put("selat_agent_resident_bytes", memory.agent_bytes)
    sheet.put("selat_jvm_resident_bytes", memory.jvm_bytes)
    sheet.put("selat_jvm_heap_used_bytes", memory.heap.used_bytes)
    sheet.put("selat_jvm_heap_committed_bytes", memory.heap.committed_bytes)
    sheet.put("selat_jvm_heap_max_bytes", memory.heap.max_bytes)
