"""All that runs, from the stored queries: which operators there are, who needs them, and what they read. Pure.

An operator goes by the query that brought it, and so does its task, also when that query is over and others need it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from master.records.model import QueryRecord, TaskStatus
from master.records.specs import ChannelReader, QueryReaders
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan, StageInput
from planner.sharing.deployment import Deployment, alone, taken_back
from planner.sharing.running import Operator, Running
from planner.sharing.vertices import VertexKind
from planner.values.names import INPUT_VIEW


@dataclass(frozen=True, slots=True)
class Read:
    """A channel that an operator reads."""

    channel: TaskId
    site: str
    """The site that produces it."""
    item: StageInput
    """The edge of the plan that it stands for."""


def operators_of(record: QueryRecord) -> tuple[Operator, ...]:
    """What a query runs of its own, its results included; of a batch query nothing, for it shares nothing."""
    if record.batch is not None:
        return ()
    return record.deployment.operators if record.deployment is not None else alone(record.plan, record.id)


def is_task(operator: Operator) -> bool:
    """All are but the copies of results."""
    return operator.vertex.kind is not VertexKind.RESULTS


def running_of(records: Iterable[QueryRecord], among: Collection[str]) -> Running:
    """What these queries run and use; operators of other queries are in it only where they need them."""
    known = {record.id: record for record in records}
    running = Running()
    added: list[str] = []

    def add(query: str) -> None:
        if query in added:
            return
        used = _used(known[query])
        for owner in sorted({name.query for name in used}):
            add(owner)
        running.add(query, operators_of(known[query]), used)
        added.append(query)

    for query in known:
        if query in among:
            add(query)
    for query in added:
        if query not in among:
            running.remove(query)
    return running


def _used(record: QueryRecord) -> tuple[TaskId, ...]:
    return record.deployment.used if record.deployment is not None else ()


def reads_of(record: QueryRecord, operator: Operator) -> tuple[Read, ...]:
    """What one of a query's own operators reads, in the order of its stage's inputs."""
    channels = _channels(record, operator)
    if operator.residual:
        return tuple(Read(channel, at, StageInput(operator.vertex.stage, INPUT_VIEW)) for channel, at in channels)
    found = []
    for item in record.plan.stage(operator.vertex.stage).inputs:
        for site in record.plan.stage(item.stage).sites:
            if not item.same_site or site == operator.site:
                channel, at = next(channels)
                found.append(Read(channel, at, item))
    return tuple(found)


def result_reads(record: QueryRecord) -> tuple[tuple[TaskId, str, str], ...]:
    """The channels of a query's results, each with the site that produces it and the stage of the query's plan."""
    results = (operator for operator in operators_of(record) if not is_task(operator))
    return tuple(
        (channel, site, vertex.stage)
        for operator in results
        for vertex, (channel, site) in zip(operator.vertex.inputs, _channels(record, operator), strict=True)
    )


def _channels(record: QueryRecord, operator: Operator) -> Iterator[tuple[TaskId, str]]:
    own = {other.id: other.site for other in operators_of(record)}
    foreign = record.deployment.foreign if record.deployment is not None else {}
    return ((name, own[name] if name in own else foreign[name]) for name in operator.inputs)


def edges_of(running: Running, query: str) -> frozenset[tuple[TaskId, str]]:
    """Channel and reading site of all that a query needs, directly or through others; none when it does not run."""
    if query not in running.queries:
        return frozenset()
    operators = [running.operator(name) for name in running.needed_by(query)]
    return frozenset((name, operator.site) for operator in operators for name in operator.inputs)


def readers_by_query(running: Running) -> Mapping[TaskId, tuple[QueryReaders, ...]]:
    """By operator, the readers of its channel without which each query does not go on, where that differs.

    A gateway that keeps results of its own site reads nothing: it is not waited for.
    """
    found: dict[TaskId, dict[str, set[ChannelReader]]] = {}
    for query in sorted(running.queries):
        for operator in map(running.operator, running.needed_by(query)):
            for name in operator.inputs:
                readers = found.setdefault(name, {}).setdefault(query, set())
                if is_task(operator):
                    readers.add(ChannelReader(operator.site, str(operator.id)))
                elif operator.site != running.operator(name).site:
                    readers.add(ChannelReader(operator.site, f"results:{query}"))
    return {
        name: tuple(QueryReaders(query, tuple(sorted(readers))) for query, readers in by_query.items())
        for name, by_query in found.items()
        if len(set(map(frozenset, by_query.values()))) > 1
    }


def tasks_beneath(record: QueryRecord, running: Running) -> Mapping[TaskId, str]:
    """Tasks of others that stand for none of a query's vertices, but do a part of their work: the stage of it, by task.

    The stage is the query's own; empty where it has none that reads the same.
    """
    deployment = record.deployment
    if deployment is None or record.id not in running.queries:
        return {}
    stages = {vertex.reads: vertex.stage for vertex in deployment.vertices if vertex.reads}
    standing = set(deployment.stands.values())
    needed = (running.operator(name) for name in running.needed_by(record.id) if name not in standing)
    return {
        operator.id: stages.get(operator.vertex.reads, "")
        for operator in needed
        if is_task(operator) and operator.id.query != record.id
    }


def initial_tasks(query: str, plan: PhysicalPlan, deployment: Deployment | None) -> tuple[TaskStatus, ...]:
    """The tasks that do a query's work, not heard of yet; the stages are the query's own."""
    if deployment is None:
        operators = [operator for operator in alone(plan, query) if is_task(operator)]
        return tuple(_status(operator.id, operator.vertex.stage, operator.site) for operator in operators)
    own = {operator.vertex.id: operator for operator in deployment.operators}
    tasks = []
    for vertex in deployment.vertices:
        if vertex.id in own and is_task(own[vertex.id]):
            tasks.append(_status(own[vertex.id].id, vertex.stage, own[vertex.id].site))
        elif vertex.id in deployment.stands:
            name = deployment.stands[vertex.id]
            tasks.append(_status(name, vertex.stage, deployment.foreign[name]))
    return tuple(tasks)


def _status(task: TaskId, stage: str, site: str) -> TaskStatus:
    return TaskStatus(task_id=task, query_id=task.query, stage_id=stage, site=site)


def without_late(record: QueryRecord, channels: Collection[TaskId], running: Running | None = None) -> QueryRecord:
    """The query with tasks of its own in the place of channels of others that no longer hold their first epochs.

    With `running`, also in the place of operators that have ended: what was shared beneath such a channel may have.
    """
    deployment = record.deployment
    if deployment is None:
        return record
    late = set(deployment.used) & set(channels)
    # What is derived of a channel begins where that begins.
    derived = (operator for operator in deployment.operators if operator.residual)
    late |= {name for o in derived if o.id in channels for name in o.inputs}
    if not late:
        return record
    changed = taken_back(deployment, record.id, late, why="its first rows are gone, which this query has to read")
    if running is not None:
        there = {operator.id for operator in running.operators}
        while ended := set(changed.used) - there:
            changed = taken_back(changed, record.id, ended, why="it has ended")
    tasks = {status.task_id: status for status in initial_tasks(record.id, record.plan, changed)}
    known = {name: status for name, status in record.progress.tasks.items() if name in tasks}
    progress = replace(record.progress, tasks={**tasks, **known})
    return replace(record, deployment=changed, progress=progress)
