"""What runs, from the stored queries and the placement of their tasks. Pure.

A task goes by the query that brought it, also when that query is over and others need it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from master.records.model import BatchQuery, QueryRecord, StreamQuery, TaskStatus
from master.records.specs import ChannelReader, QueryReaders
from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import PhysicalPlan, StageInput
from planner.sharing.deployment import Change, Deployment, alone, sites_of, taken_back
from planner.sharing.running import Deployed, MutableRunning, Running
from planner.sharing.vertices import VertexKind
from planner.values.names import INPUT_VIEW


@dataclass(frozen=True, slots=True)
class Read:
    """A channel that a task reads."""

    channel: TaskId
    site: str
    """The site that produces it."""
    item: StageInput
    """The edge of the plan that it stands for."""


def deployed_of(record: QueryRecord) -> tuple[Deployed, ...]:
    """What a query runs of its own, including the copy of its results; nothing for a batch query, which
    shares nothing."""
    if not isinstance(record, StreamQuery):
        return ()
    return record.deployment.deployed if record.deployment is not None else alone(record.plan, record.id)


def deployment_of(record: QueryRecord) -> Deployment | None:
    """What a query shares; None: nothing, as for any batch query."""
    return record.deployment if isinstance(record, StreamQuery) else None


def is_task(one: Deployed) -> bool:
    """Whether it is a task, and not a copy of results."""
    return one.vertex.kind is not VertexKind.RESULTS


def running_of(
    records: Iterable[QueryRecord], placement: Mapping[TaskId, str], among: Collection[str], *, version: int = 0
) -> Running:
    """What these queries run and use; tasks of other queries only where these queries need them.

    Args:
        records: all queries that are known.
        placement: where their tasks are.
        among: the queries.
        version: of the records and the placement.
    """
    known = {record.id: record for record in records}
    running = MutableRunning(version)
    added: list[str] = []

    def add(query: str) -> None:
        if query in added:
            return
        used = used_by(known[query])
        for owner in sorted({name.query for name in used}):
            add(owner)
        running.add(query, deployed_of(known[query]), placement, used)
        added.append(query)

    for query in known:
        if query in among:
            add(query)
    for query in added:
        if query not in among:
            running.remove(query)
    return running


def used_by(record: QueryRecord) -> tuple[TaskId, ...]:
    """The tasks of other queries that a query reads, or is about to read."""
    deployment = deployment_of(record)
    return (*deployment.used, *deployment.held) if deployment is not None else ()


def named_by(record: QueryRecord) -> frozenset[TaskId]:
    """All tasks whose sites are looked up for a query: its own, those that it reads, and those that stand
    for its own."""
    deployment = deployment_of(record)
    stands = deployment.stands.values() if deployment is not None else ()
    return frozenset((*(one.id for one in deployed_of(record)), *used_by(record), *stands))


def reads_of(record: QueryRecord, one: Deployed, placement: Mapping[TaskId, str]) -> tuple[Read, ...]:
    """The channels that one of a query's own tasks reads, in the order of its stage's inputs."""
    if one.residual:
        item = StageInput(one.vertex.stage, INPUT_VIEW)
        return tuple(Read(channel, placement[channel], item) for channel in one.inputs)
    channels, found = iter(one.inputs), []
    for item in record.plan.stage(one.vertex.stage).inputs:
        for site in record.plan.stage(item.stage).homes:
            if not item.same_site or site == one.vertex.pinned:
                channel = next(channels)
                found.append(Read(channel, placement[channel], item))
    return tuple(found)


def result_reads(record: QueryRecord, placement: Mapping[TaskId, str]) -> tuple[tuple[TaskId, str, str], ...]:
    """The channels of a query's results, each with the site that produces it and its stage in the query's plan."""
    return tuple(
        (channel, placement[channel], vertex.stage)
        for one in deployed_of(record)
        if not is_task(one)
        for vertex, channel in zip(one.vertex.inputs, one.inputs, strict=True)
    )


def edges_of(running: Running, query: str) -> frozenset[tuple[TaskId, str]]:
    """Each channel that a query needs, directly or through others, with the site that reads it; none when it does not
    run."""
    if query not in running.queries:
        return frozenset()
    needed = [running.task(name) for name in running.needed_by(query)]
    return frozenset((name, running.site(one.id)) for one in needed for name in one.inputs)


def readers_by_query(
    running: Running, *, always: Collection[TaskId] = (), reader_of: Callable[[Deployed], ChannelReader]
) -> Mapping[TaskId, tuple[QueryReaders, ...]]:
    """By task, the readers of its channel that each query needs, where queries differ in that.

    A gateway that keeps results of its own site reads nothing: it is not waited for.

    Args:
        running: what runs.
        always: tasks for which it is told in any case, because others read their channels that are not waited for.
        reader_of: the reader that a task is.
    """
    found: dict[TaskId, dict[str, set[ChannelReader]]] = {}
    for query in sorted(running.queries):
        for one in map(running.task, running.needed_by(query)):
            site = running.site(one.id)
            for name in one.inputs:
                readers = found.setdefault(name, {}).setdefault(query, set())
                if is_task(one):
                    readers.add(reader_of(one))
                elif site != running.site(name):
                    readers.add(ChannelReader(site, f"results:{query}"))
    return {
        name: tuple(QueryReaders(query, tuple(sorted(readers))) for query, readers in by_query.items())
        for name, by_query in found.items()
        if name in always or len(set(map(frozenset, by_query.values()))) > 1
    }


def tasks_beneath(record: QueryRecord, running: Running) -> Mapping[TaskId, str]:
    """Tasks of other queries that do part of the work of a query's vertices but stand for none, with the stage of that
    work.

    The stage is the query's own; empty where it has none that reads the same.
    """
    deployment = deployment_of(record)
    if deployment is None or record.id not in running.queries:
        return {}
    stages = {vertex.reads: vertex.stage for vertex in deployment.vertices if vertex.reads}
    standing = set(deployment.stands.values())
    needed = (running.task(name) for name in running.needed_by(record.id) if name not in standing)
    return {one.id: stages.get(one.vertex.reads, "") for one in needed if is_task(one) and one.id.query != record.id}


def tasks_by_vertex(query: str, plan: PhysicalPlan, deployment: Deployment | None) -> Mapping[VertexId, TaskId]:
    """By vertex of the query, the tasks that do its work, including those of other queries."""
    if deployment is None:
        return {one.vertex.id: one.id for one in alone(plan, query) if is_task(one)}
    own = {one.vertex.id: one.id for one in deployment.deployed if is_task(one)}
    tasks = {**deployment.stands, **own}
    return {vertex.id: tasks[vertex.id] for vertex in deployment.vertices if vertex.id in tasks}


def plan_in_place(record: QueryRecord, placement: Mapping[TaskId, str]) -> PhysicalPlan:
    """A query's plan with the sites of its vertices, for people."""
    if isinstance(record, BatchQuery):
        return record.plan
    deployment = deployment_of(record)
    tasks = tasks_by_vertex(record.id, record.plan, deployment)
    wanted = deployment.wanted if deployment is not None else {}
    known = {vertex: placement[task] for vertex, task in tasks.items() if task in placement}
    return replace(record.plan, sites={**wanted, **known})


def initial_tasks(
    query: str, plan: PhysicalPlan, deployment: Deployment | None, placement: Mapping[TaskId, str]
) -> Mapping[TaskId, TaskStatus]:
    """The statuses of the tasks that do a query's work, before their agents have reported them."""
    return {
        task: TaskStatus(task_id=task, query_id=task.query, stage_id=vertex.stage, site=placement[task])
        for vertex, task in tasks_by_vertex(query, plan, deployment).items()
    }


def redeployed(record: StreamQuery, change: Change, placement: Mapping[TaskId, str]) -> StreamQuery:
    """The query with another deployment; tasks that it keeps keep their progress."""
    tasks = initial_tasks(record.id, change.plan, change.deployment, placement)
    before = record.progress
    known = {name: status for name, status in before.tasks.items() if name in tasks and name not in change.anew}
    progress = replace(before, tasks={**tasks, **known})
    if change.anew:
        gone = sum(status.rows_late for name, status in before.tasks.items() if name not in known)
        progress = replace(progress, rows_late_before=before.rows_late_before + gone)
    return replace(record, plan=change.plan, deployment=change.deployment, progress=progress)


def without_late(record: QueryRecord, channels: Collection[TaskId], running: Running) -> Change | None:
    """The query with its own tasks in place of channels of others that no longer hold their first epochs.

    Also in the place of tasks that have ended: what was shared beneath such a channel may have. None: it reads none of
    these channels.
    """
    deployment = deployment_of(record)
    if deployment is None:
        return None
    late = set(deployment.used) & set(channels)
    # A derived task begins with the first epoch that the channel still holds.
    derived = (one for one in deployment.deployed if one.residual)
    late |= {name for one in derived if one.id in channels for name in one.inputs}
    if not late:
        return None
    why = "its first rows, which this query has to read, were removed"
    changed = taken_back(deployment, record.id, late, why=why)
    there = {one.id for one in running.deployed}
    while ended := set(changed.used) - there:
        changed = taken_back(changed, record.id, ended, why="it has ended")
    reason = "runs its own of " + ", ".join(map(str, sorted(channels)))
    return Change(running.version, record.plan, changed, sites_of(changed, running.placement), reason)
