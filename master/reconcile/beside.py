"""The tasks that begin beside those that run, while a handover is under way, each with its site. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from contract.tasks import ReadFrom
from master.queries.sharing import deployment_of
from master.reconcile.generations import Generations
from master.reconcile.inputs import Placed, inputs_of, task_spec, with_bins_of
from master.records.model import QueryRecord
from master.records.specs import ChannelInput, TaskSpec
from planner.graph.ids import TaskId
from planner.sharing.deployment import alone, placed_alone
from planner.sharing.forking import own_task
from planner.sharing.joining import remade
from planner.sharing.running import Deployed, Running
from planner.sharing.swapping import combines_of

Sited = Iterator[tuple[str, TaskSpec]]


class Beside:
    """Serves one computation of assignments.

    Args:
        known: the queries, by id.
        placed: where their tasks are, and what they read.
        generations: the tasks in their places.
        running: what runs.
        at_work: the places whose tasks are not paused.
    """

    def __init__(
        self,
        known: Mapping[str, QueryRecord],
        placed: Placed,
        generations: Generations,
        running: Running,
        at_work: Collection[TaskId],
    ) -> None:
        self._known = known
        self._placed = placed
        self._generations = generations
        self._running = running
        self._at_work = at_work

    def all(self, task: TaskSpec, one: Deployed) -> Sited:
        """Yield the task in a place, the one that takes over from it, and those that begin for the latter."""
        found = self._generations.tasks(task, self._running.site(one.id))
        yield from self._successions(found, self._known[one.id.query], one)
        yield from self._new_parts(task, self._known[one.id.query], one)
        yield from self._new_combines(task, one)
        yield from self._forks(task)

    def _successions(self, found: Iterable[tuple[str, TaskSpec]], query: QueryRecord, one: Deployed) -> Sited:
        """Yield the tasks in a place; those that begin late read from the middle of their inputs."""
        swap, join = self._generations.swap(one.id), self._generations.join(one.id)
        for site, task in found:
            if task.take_over is not None and join is not None:
                yield site, self._of_shared(task, site, query, remade(one, join.shared))
            elif task.take_over is not None and swap is not None:
                yield site, self._of_new_combines(task, one)
            elif task.take_over is not None and task.take_over.late:
                late = inputs_of(query, one, self._placed, late=True)
                yield site, replace(task, inputs=self._generations.named(late))
            else:
                yield site, task

    def _of_shared(self, successor: TaskSpec, site: str, query: QueryRecord, one: Deployed) -> TaskSpec:
        """Return the task that takes over from a merge, and makes its rows of a task that is shared again."""
        spec = task_spec(query, one, self._placed.at({one.id: site}), successor.consumers)
        return replace(
            spec,
            task_id=successor.task_id,
            inputs=self._generations.named(spec.inputs),
            paused=successor.paused,
            readers=successor.readers,
            epoch_interval=successor.epoch_interval,
            take_over=successor.take_over,
        )

    def _new_parts(self, first: TaskSpec, query: QueryRecord, one: Deployed) -> Sited:
        """Yield the tasks that begin in the middle of the inputs of a merge beside its parts, given the first of
        these."""
        found = tuple(self._generations.new_parts(first.task_id))
        stage = replace(query.plan.stage(first.stage_id), parts=len(found)) if found else None
        for name, site, reader in found:
            assert stage is not None
            late = self._generations.named(inputs_of(query, one, self._placed, late=True))
            inputs = tuple(with_bins_of(item, stage, name.partition) for item in late)
            yield site, replace(first, task_id=name, inputs=inputs, consumers=(reader,), readers=(), beside=True)

    def _new_combines(self, merge: TaskSpec, one: Deployed) -> Sited:
        """Yield the COMBINEs that begin beside those before a merge, in the middle of what sources send."""
        found = self._generations.swap(one.id)
        if found is None or not found[1].started:
            return
        swap, handover = found
        query = replace(self._known[one.id.query], plan=swap.plan)
        new = combines_of(swap.plan, query.id)
        placed = self._placed.at(placed_alone(swap.plan, query.id))
        for combine in new:
            readers = {placed.placement[other.id] for other in new if combine.id in other.inputs}
            readers |= {handover.to_site} if combine.id in self._merge_in(query, one).inputs else set()
            spec = task_spec(query, combine, placed, readers)
            late = inputs_of(query, combine, placed, late=True)
            yield (
                placed.placement[combine.id],
                replace(
                    spec,
                    task_id=combine.id._replace(generation=handover.generation),
                    inputs=self._renamed(late, new, handover.generation),
                    paused=merge.paused,
                    epoch_interval=merge.epoch_interval,
                    beside=True,
                ),
            )

    def _of_new_combines(self, successor: TaskSpec, one: Deployed) -> TaskSpec:
        """Return the task that takes over from a merge, as another plan has it."""
        found = self._generations.swap(one.id)
        assert found is not None
        swap, handover = found
        query = replace(self._known[one.id.query], plan=swap.plan)
        placed = self._placed.at(placed_alone(swap.plan, query.id))
        spec = task_spec(query, self._merge_in(query, one), placed, ())
        inputs = self._renamed(spec.inputs, combines_of(swap.plan, query.id), handover.generation)
        return replace(successor, sql=spec.sql, merge=spec.merge, functions=spec.functions, inputs=inputs)

    def _merge_in(self, query: QueryRecord, one: Deployed) -> Deployed:
        """Return the merge in a place as the query's plan has it."""
        return next(other for other in alone(query.plan, query.id) if other.id == one.id)

    def _renamed(
        self, inputs: Collection[ChannelInput], new: Iterable[Deployed], generation: int
    ) -> tuple[ChannelInput, ...]:
        """Return inputs with the tasks that run in their places; those that begin are read from their first epoch."""
        begun = {one.id for one in new}
        return tuple(
            replace(item, channel=item.channel._replace(generation=generation), read_from=ReadFrom.OWN)
            if item.channel in begun
            else named
            for item, named in zip(inputs, self._generations.named(inputs), strict=True)
        )

    def _forks(self, shared: TaskSpec) -> Sited:
        """Yield the task of a query that goes on with one of its own, given the one that it shares."""
        for fork, take_over, readers in self._generations.forks(shared.task_id):
            query = self._known[fork.query]
            deployment = deployment_of(query)
            own = own_task(deployment, query.id, shared.task_id, self._running) if deployment is not None else None
            if own is None:
                continue
            sites = {site for reader in readers for site in self._generations.reading_sites(reader)}
            placed = self._placed.at({own.id: fork.site})
            inputs = self._generations.named(inputs_of(query, own, placed, late=take_over.late))
            yield (
                fork.site,
                replace(
                    task_spec(query, own, placed, sites),
                    task_id=fork.task,
                    inputs=inputs,
                    paused=not any(reader in self._at_work for reader in readers),
                    epoch_interval=shared.epoch_interval,
                    take_over=take_over,
                ),
            )
