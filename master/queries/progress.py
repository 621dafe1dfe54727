"""Derives a query's progress, and the event that follows from it, from the reports of sites. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from contract.figures import FIGURES
from contract.tasks import TaskState
from master.queries.batch_tasks import source_ids, task_list
from master.queries.sharing import deployment_of, tasks_by_vertex
from master.records.lifecycle import QueryEvent
from master.records.model import (
    BatchQuery,
    ChannelCounter,
    ChannelUse,
    Progress,
    QueryRecord,
    ResultStatus,
    SiteReport,
    TaskStatus,
)
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.sharing.deployment import Start
from planner.values.stages import StageKind

_COUNTS = tuple(figure.name for figure in FIGURES if figure.traits.grows)


def with_progress(record: BatchQuery) -> BatchQuery:
    """A batch query whose progress includes the tasks that were placed since."""
    known = record.progress.tasks
    new = {status.task_id: status for status in task_list(record) if status.task_id not in known}
    return replace(record, progress=replace(record.progress, tasks={**known, **new}))


def with_report(
    record: QueryRecord,
    report: SiteReport,
    *,
    now: datetime,
    edges: Collection[tuple[TaskId, str]] = (),
    beneath: Mapping[TaskId, str] | None = None,
) -> Progress:
    """The query's progress after one site's report.

    `edges` are the channels that it uses, with the reading sites; `beneath` are tasks of others that do a part of its
    stages' work, with the stage of each.

    Statuses are totals since the query began: the newest replaces the last. A query that is over only learns of more
    result rows, because its tasks are gone and an agent that starts anew may count from nothing for a while.
    """
    result = _newer_result(record, report)
    if record.state.over:
        return replace(record.progress, result=result)
    tasks = _newer_tasks(_needed(record, beneath or {}), report, beneath or {})
    complete_since = record.progress.complete_since
    if (result is not None and result.complete) or _written(record.plan, tasks):
        complete_since = complete_since or now
    return replace(
        record.progress,
        tasks=tasks,
        counters=_newer_counters(record, report, edges),
        result=result,
        complete_since=complete_since,
    )


def next_event(
    record: QueryRecord, *, alive: frozenset[str], now: datetime, final_report_wait: timedelta
) -> tuple[QueryEvent, str] | None:
    """The event that follows from the progress, with its reason; None when there is none.

    A cancelled query's end is not decided here: it follows from assignments, see `tasks_gone`.
    """
    tasks = record.progress.tasks.values()
    left = next((text for text, last in behind_texts(record) if last), None)
    if record.state.held and left is not None:
        hint = "submit it again, or give the agent of that task more --kept-behind-bytes"
        return QueryEvent.LEFT_BEHIND, f"left {left}, more than is kept for queries that do not keep up; {hint}"
    if not record.state.live:
        return None
    failed = next((t for t in tasks if t.state is TaskState.FAILED), None)
    if failed is not None:
        return QueryEvent.TASK_FAILED, f"task {failed.task_id} failed: {failed.reason or 'no reason given'}"
    if record.state.starting and _running(record):
        return QueryEvent.TASKS_RUNNING, ""
    if _complete(record.progress, alive=alive, now=now, final_report_wait=final_report_wait):
        return QueryEvent.RESULTS_COMPLETE, ""
    return None


def behind_texts(record: QueryRecord) -> tuple[tuple[str, bool], ...]:
    """Where the query is behind others that read the same channels, and whether it is too far behind."""
    return tuple(
        (f"behind by {b.bytes} bytes of {task.task_id}, which wait for it at {', '.join(b.sites)}", b.left)
        for _, task in sorted(record.progress.tasks.items())
        for b in task.behind
        if b.query_id == record.id
    )


def at_sites(progress: Progress, sites: Mapping[TaskId, str]) -> Progress:
    """The progress with these tasks at these sites, as far as it knows them."""
    moved = {
        name: replace(status, site=sites[name])
        for name, status in progress.tasks.items()
        if sites.get(name, status.site) != status.site
    }
    return replace(progress, tasks={**progress.tasks, **moved}) if moved else progress


def resumed_progress(progress: Progress) -> Progress:
    """The progress of a query that resumes: counts stay, but no task has been seen running."""
    tasks = {name: replace(status, state=TaskState.STARTING, reason="") for name, status in progress.tasks.items()}
    return replace(progress, tasks=tasks)


def _running(record: QueryRecord) -> bool:
    """Whether every task has been seen running; of a batch query, whose tasks wait for slots, one."""
    tasks = record.progress.tasks
    if not isinstance(record, BatchQuery):
        return all(t.state.started for t in tasks.values())
    return any(tasks[source].state.started for source in source_ids(record) if source in tasks)


@dataclass(frozen=True, slots=True)
class Totals:
    """A query in numbers, since it started."""

    rows_in: int
    rows_out: int
    rows_late: int
    rows_malformed: int
    rows_shed: int
    watermark_us: int | None
    input_bytes: int = 0
    """Bytes of the rows that its streams and tables gave, as stored at their sites."""


def totals(record: QueryRecord) -> Totals:
    """The totals of a query: rows read, rows of results, and so on. Of a batch query, rows read are those of its first
    table."""
    sources = {stage.id for stage in record.plan.stages if stage.kind is StageKind.SOURCE}
    readers = source_ids(record) if isinstance(record, BatchQuery) else frozenset()
    tasks = record.progress.tasks.values()
    result = _result(record)
    return Totals(
        rows_in=sum(
            t.rows_in for t in tasks if (t.stage_id in sources and not t.task_id.derived) or t.task_id in readers
        ),
        rows_out=result.rows if result else 0,
        rows_late=sum(t.rows_late for t in tasks) + record.progress.rows_late_before,
        rows_malformed=sum(t.rows_malformed for t in tasks),
        rows_shed=sum(t.rows_shed for t in tasks),
        watermark_us=result.watermark_us if result else None,
        input_bytes=sum(t.input_bytes for t in tasks),
    )


def tasks_gone(sites: Iterable[tuple[str, int]], removed_at: dict[str, int]) -> bool:
    """Whether each of these sites (reachable, with the assignment version in force there) has removed the tasks."""
    return all(version >= removed_at.get(site, 0) for site, version in sites)


def _result(record: QueryRecord) -> ResultStatus | None:
    """The state of the results, as the gateway reports them; of an INSERT, as its sink does."""
    if record.plan.sink is None:
        return record.progress.result
    tasks = _sink_tasks(record.plan, record.progress.tasks)
    marks = [t.watermark_us for t in tasks]
    known = [mark for mark in marks if mark is not None]
    watermark_us = min(known) if known and len(known) == len(marks) else None
    return ResultStatus(record.id, rows=sum(t.rows_out for t in tasks), watermark_us=watermark_us)


def _written(plan: PhysicalPlan, tasks: Mapping[TaskId, TaskStatus]) -> bool:
    """Whether the query has a sink that has committed everything."""
    found = _sink_tasks(plan, tasks)
    return bool(found) and all(t.state is TaskState.ENDED for t in found)


def _sink_tasks(plan: PhysicalPlan, tasks: Mapping[TaskId, TaskStatus]) -> tuple[TaskStatus, ...]:
    sink = plan.sink
    return tuple(t for t in tasks.values() if sink is not None and t.stage_id == sink.id)


def _complete(progress: Progress, *, alive: frozenset[str], now: datetime, final_report_wait: timedelta) -> bool:
    """Whether all results are held and the last totals are in: nobody reports a task that is no longer assigned."""
    if progress.complete_since is None:
        return False
    waiting = any(t.state is not TaskState.ENDED and t.site in alive for t in progress.tasks.values())
    return not waiting or now >= progress.complete_since + final_report_wait


def _needed(record: QueryRecord, beneath: Mapping[TaskId, str]) -> Mapping[TaskId, TaskStatus]:
    """Without tasks of other queries that did part of its work and do not any more."""
    known = record.progress.tasks
    deployment = deployment_of(record)
    if deployment is None:
        return known
    own = set(tasks_by_vertex(record.id, record.plan, deployment).values())
    return {name: status for name, status in known.items() if name in own or name in beneath}


def _newer_tasks(
    known: Mapping[TaskId, TaskStatus], report: SiteReport, beneath: Mapping[TaskId, str]
) -> dict[TaskId, TaskStatus]:
    # A task of another query that stands for one of this query's counts as that one.
    news = {
        status.task_id: _taken(known[status.task_id], status)
        for status in report.tasks
        if status.task_id in known and known[status.task_id].site == report.site
    }
    new = {
        status.task_id: replace(status, stage_id=beneath[status.task_id])
        for status in report.tasks
        if status.task_id in beneath and status.task_id not in known
    }
    return {**known, **news, **new}


def _taken(last: TaskStatus, status: TaskStatus) -> TaskStatus:
    """The newer status; but where a task began is reported by the agent that started it, not by the next one."""
    if status.state is TaskState.PAUSED:
        status = _still(last, status)
    starts_at_us = last.starts_at_us if status.starts_at_us is None else status.starts_at_us
    return replace(status, stage_id=last.stage_id, starts_at_us=starts_at_us)


def _still(last: TaskStatus, status: TaskStatus) -> TaskStatus:
    """The status of a paused task: an agent that restarted has not read its totals."""
    counts = {name: max(getattr(last, name), getattr(status, name)) for name in _COUNTS}
    watermark_us = last.watermark_us if status.watermark_us is None else status.watermark_us
    return replace(status, **counts, watermark_us=watermark_us, operators=last.operators)


def _newer_result(record: QueryRecord, report: SiteReport) -> ResultStatus | None:
    last = record.progress.result
    if report.site != record.plan.destination.site:
        return last
    news = next((r for r in report.results if r.query_id == record.id), None)
    if news is None or (record.state.over and last is not None and news.rows <= last.rows):
        return last
    if last is not None and news.starts_at_us is None:
        # After a restart an agent may not hold the first epoch yet.
        return replace(news, starts_at_us=last.starts_at_us)
    return news


def _newer_counters(
    record: QueryRecord, report: SiteReport, edges: Collection[tuple[TaskId, str]]
) -> tuple[ChannelCounter, ...]:
    counters = {(c.channel, c.to_site): c for c in record.progress.counters}
    for use in report.channels:
        if use.query_id == record.id or (use.channel, report.site) in edges:
            key = (use.channel, report.site)
            counters[key] = _counted(counters.get(key) or _first(record, use, report), use, report)
    return tuple(counters[key] for key in sorted(counters))


def _first(record: QueryRecord, use: ChannelUse, report: SiteReport) -> ChannelCounter:
    """The first report of a channel: what others received before a query joined it does not count as its use."""
    deployment = deployment_of(record)
    late = deployment is not None and deployment.start is Start.NEXT_WINDOW
    before = use.bytes if late and use.channel.query != record.id else 0
    return ChannelCounter(use.channel, use.from_site, report.site, report.incarnation, earlier_bytes=-before)


def _counted(counter: ChannelCounter, use: ChannelUse, report: SiteReport) -> ChannelCounter:
    """Agents count from their start: a new incarnation, or a lower count, is added to the counts before."""
    if counter.incarnation != report.incarnation or use.bytes < counter.current_bytes:
        counter = replace(counter, earlier_bytes=counter.total_bytes, earlier_epochs=counter.total_epochs)
    return replace(counter, incarnation=report.incarnation, current_bytes=use.bytes, current_epochs=use.epochs)
