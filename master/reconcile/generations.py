"""Maps places to the tasks that are in them, and back: records name places, sites know tasks by generation. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from master.records.model import InputStatus, SiteReport, TaskStatus
from master.records.specs import ChannelInput, ChannelReader, HandOver, ResultSpec, TakeOver, TaskSpec
from planner.graph.ids import TaskId
from planner.handover.model import STATELESS, Fork, Handover, Join, Lineage, Step, Swap, place_of
from planner.sharing.deployment import placed_alone
from planner.sharing.running import Deployed, Running
from planner.sharing.swapping import sources_read
from planner.values.stages import StageKind

_SEEDED = (Step.SEEDING, Step.CUT, Step.WITHDRAWN, Step.TAKEN)
_CUT = (Step.CUT, Step.TAKEN)


class Generations:
    """The tasks in the places of what runs, with those that take over from them.

    Args:
        lineages: by place, where there was more than one task, or a handover is under way.
        running: what runs, by places.
    """

    def __init__(self, lineages: Mapping[TaskId, Lineage], running: Running) -> None:
        self._lineages = lineages
        self._running = running

    @property
    def shadowed(self) -> frozenset[TaskId]:
        """Places whose channels are read by a task that has not taken over yet, and is not waited for."""
        given = [one for one in self._lineages.values() if one.shadowed and self._runs(one.place)]
        reading = [place for one in given for place in (one.place, *self._given_up(one))]
        inputs = (name for place in reading for name in self._running.task(place).inputs)
        joined = (one.handover.join.shared for one in given if one.handover is not None and one.handover.join)
        return frozenset((*(one.place for one in given), *inputs, *joined))

    def reading_sites(self, place: TaskId) -> tuple[str, ...]:
        """The sites for which the inputs of a place are kept."""
        handover = self._handover(place)
        sites = (self._running.site(place),) if handover is None else handover.reading
        fork = self._fork(place)
        forked = (fork.site,) if fork is not None and handover is not None and handover.step is not Step.BACK else ()
        return (*sites, *forked, *self._sites_beside(place))

    def reader(self, one: Deployed) -> ChannelReader:
        """Whom producers wait for as the reader in a place."""
        task, site = leading(one.id, self._running.site(one.id), self._lineages)
        return ChannelReader(site, str(task))

    def tasks(self, spec: TaskSpec, site: str) -> Iterator[tuple[str, TaskSpec]]:
        """The task in the place of a spec, and the one that takes over from it, each with its site."""
        lineage, handover = self._lineages.get(spec.task_id), self._handover(spec.task_id)
        old = replace(spec, inputs=tuple(map(self._named, spec.inputs)))
        if lineage is None:
            yield site, old
            return
        old = replace(old, task_id=lineage.task)
        if handover is None or not handover.started:
            yield site, old
            return
        successor = lineage.task._replace(generation=handover.generation)
        order = None
        if handover.step in _SEEDED:
            seeds = handover.step is not Step.TAKEN and _gets_state(spec, handover)
            seed = handover.first_epochs if seeds else None
            order = HandOver(successor, handover.to_site, seed, handover.step in _CUT, handover.fork)
            order = replace(order, join=self._joined(handover))
        fork = self._fork(lineage.place)
        # The successors read the old channel, to learn where it ends.
        new = (handover.to_site,) if fork is None else (handover.to_site, fork.site)
        consumers = tuple(sorted({*old.consumers, *new}))
        yield site, replace(old, consumers=consumers, hand_over=order)
        take_over = TakeOver(lineage.task, site, seeded=_gets_state(spec, handover), late=handover.without_state)
        take_over = replace(take_over, renumbers=_renumbers(spec, handover))
        heir = self._without_fork(replace(old, task_id=successor, take_over=take_over), lineage.place, handover.fork)
        yield handover.to_site, replace(heir, inputs=_of_new_parts(heir, handover)) if handover.scaling else heir

    def _joined(self, handover: Handover) -> ChannelInput | None:
        """Return the channel that a task's own has to meet, from the first epoch at the successor's site on."""
        if handover.join is None:
            return None
        shared = handover.join.shared
        task = self._lineages[shared].task if shared in self._lineages else shared
        first = handover.first_epochs.get(str(task), 0)
        return ChannelInput(task, self._running.site(shared), from_epoch=first)

    def join(self, place: TaskId) -> Join | None:
        """Return what is to be shared in the place of a task; None: nothing."""
        handover = self._handover(place)
        return None if handover is None else handover.join

    def _without_fork(self, spec: TaskSpec, place: TaskId, fork: Fork | None) -> TaskSpec:
        """Return the successor for all queries but the one that has a task of its own."""
        if fork is None:
            return spec
        others = [one.id for one in self._running.deployed if place in one.inputs and one.id.query != fork.query]
        sites = {site for reader in others for site in self.reading_sites(reader)}
        readers = tuple(one for one in spec.readers if one.query_id != fork.query)
        return replace(spec, consumers=tuple(sorted(sites)), readers=readers)

    def new_parts(self, place: TaskId) -> Iterator[tuple[TaskId, str, str]]:
        """The tasks that begin beside the parts of a merge, each with its site and the one of their reader, given the
        place of the first part."""
        if place.partition:
            return
        for handover in self._scaling_of(place):
            if handover.started and handover.scaling is not None:
                for number, site in enumerate(handover.scaling.sites):
                    name = place._replace(partition=number, generation=handover.generation)
                    yield name, site, handover.to_site

    def swap(self, place: TaskId) -> tuple[Swap, Handover] | None:
        """Return the COMBINEs that begin beside those of a merge, with its handover; None: none do."""
        handover = self._handover(place)
        if handover is None or handover.swap is None or handover.step is Step.BACK:
            return None
        return handover.swap, handover

    def reads_beside(self) -> Iterator[tuple[TaskId, str]]:
        """Yield the places that new COMBINEs read, and tasks that are to be shared again, each with the site of one
        that does."""
        for one in self._lineages.values():
            if one.handover is not None and one.handover.join is not None and self._runs(one.place):
                yield from ((one.handover.join.shared, site) for site in one.handover.reading_shared)
            found = self.swap(one.place) if self._runs(one.place) else None
            if found is not None:
                plan, query = found[0].plan, one.place.query
                sites = placed_alone(plan, query)
                for place, sources in sources_read(plan, query).items():
                    yield from ((name, sites[place]) for name in sources)

    def forks(self, place: TaskId) -> Iterator[tuple[Fork, TakeOver, tuple[TaskId, ...]]]:
        """Yield the fork of a place, if it has one: whose place its task takes, and what is to read its channel."""
        lineage, handover, fork = self._lineages.get(place), self._handover(place), self._fork(place)
        if lineage is not None and handover is not None and handover.started and fork is not None:
            take_over = TakeOver(lineage.task, handover.from_site, seeded=False, late=handover.without_state)
            yield fork, take_over, readers_in(self._running, place, fork.query)

    def results(self, spec: ResultSpec) -> ResultSpec:
        """The copies of a query's results: those of all tasks that were in its places."""
        return replace(spec, inputs=tuple(one for item in spec.inputs for one in self._all_of(item, spec.query_id)))

    def _all_of(self, item: ChannelInput, query: str) -> Iterator[ChannelInput]:
        lineage = self._lineages.get(item.channel)
        if lineage is None:
            yield item
            return
        for one in lineage.earlier:
            channel = (one.of or item.channel)._replace(generation=one.generation)
            yield replace(item, channel=channel, site=one.site, from_epoch=one.from_epoch)
        yield self._named(item)
        handover = lineage.handover
        if handover is None or not handover.started:
            return
        fork = handover.fork
        if fork is not None and fork.query == query:
            yield replace(item, channel=fork.task, site=fork.site)
        else:
            yield replace(item, channel=item.channel._replace(generation=handover.generation), site=handover.to_site)

    def _named(self, item: ChannelInput) -> ChannelInput:
        lineage = self._lineages.get(item.channel)
        return item if lineage is None else replace(item, channel=lineage.task, from_epoch=lineage.from_epoch)

    def _fork(self, place: TaskId) -> Fork | None:
        """Return the fork that a place is in, as long as anything of its query would read it."""
        handover = self._handover(place)
        fork = handover.fork if handover is not None else None
        return fork if fork is not None and readers_in(self._running, place, fork.query) else None

    def _handover(self, place: TaskId) -> Handover | None:
        lineage = self._lineages.get(place)
        return None if lineage is None else lineage.handover

    def _scaling_of(self, place: TaskId) -> Iterator[Handover]:
        """The handover, if there is one, in which new parts take the place of those of a merge."""
        for one in self._lineages.values():
            found = one.handover
            if found is None or found.scaling is None or not self._runs(one.place):
                continue
            if (one.place.query, found.scaling.stage) == (place.query, place.stage) and not place.derived:
                yield found

    def _sites_beside(self, place: TaskId) -> Iterator[str]:
        """The sites at which new parts read what that one reads."""
        for handover in self._scaling_of(place):
            if handover.scaling is not None and handover.step is not Step.BACK:
                yield from handover.scaling.sites

    def _given_up(self, lineage: Lineage) -> tuple[TaskId, ...]:
        """The tasks on the way to the one in a place, in the place of some of which its successor reads others."""
        handover = lineage.handover
        if handover is None or not handover.reads_others:
            return ()
        return self._running.with_inputs(self._running.task(lineage.place).inputs)

    def named(self, inputs: Collection[ChannelInput]) -> tuple[ChannelInput, ...]:
        """Inputs with the tasks that are in their places."""
        return tuple(map(self._named, inputs))

    def _runs(self, place: TaskId) -> bool:
        return place in self._running.placement


def readers_in(running: Running, place: TaskId, query: str) -> tuple[TaskId, ...]:
    """Return the tasks and copies of results of a query that read the task in a place."""
    return tuple(one.id for one in running.deployed if one.id.query == query and place in one.inputs)


def _gets_state(spec: TaskSpec, handover: Handover) -> bool:
    """Return whether the successor is made of a checkpoint: not one that reads new parts, nor one without state."""
    return not handover.begins_late and handover.join is None and spec.kind not in STATELESS


def _renumbers(spec: TaskSpec, handover: Handover) -> bool:
    """Return whether the epochs in a place have other numbers than those of which the successor makes its own: they
    have where another task than one of DERIVE began its channel."""
    return handover.join is not None or (spec.kind is StageKind.DERIVE and not spec.task_id.derived)


def _of_new_parts(spec: TaskSpec, handover: Handover) -> tuple[ChannelInput, ...]:
    """The inputs of the successor of a FINAL: the new parts, from their beginning."""
    scaling, like = handover.scaling, spec.inputs[0]
    assert scaling is not None
    names = (
        like.channel._replace(partition=number, generation=handover.generation) for number in range(len(scaling.sites))
    )
    pairs = zip(names, scaling.sites, strict=True)
    return tuple(replace(like, channel=name, site=site, from_epoch=0) for name, site in pairs)


def leading(place: TaskId, site: str, lineages: Mapping[TaskId, Lineage]) -> tuple[TaskId, str]:
    """The task whose output counts as that of a place, and its site; `site` is that of the task in the place."""
    lineage = lineages.get(place)
    if lineage is None:
        return place, site
    handover = lineage.handover
    if handover is not None and handover.step is Step.TAKEN:
        return place._replace(generation=handover.generation), handover.to_site
    return lineage.task, site


def in_places(report: SiteReport, lineages: Mapping[TaskId, Lineage]) -> SiteReport:
    """The report, of the tasks that lead in their places, under the places' names."""
    if not lineages:
        return report
    return replace(
        report,
        tasks=tuple(_placed(status) for status in report.tasks if _leads(status.task_id, lineages)),
        inputs=_inputs(report.inputs, lineages),
    )


def _placed(status: TaskStatus) -> TaskStatus:
    missed = tuple(map(place_of, status.missed_inputs))
    return replace(status, task_id=place_of(status.task_id), missed_inputs=missed, handover=None)


def _leads(task: TaskId, lineages: Mapping[TaskId, Lineage]) -> bool:
    place = place_of(task)
    return leading(place, "", lineages)[0] == task


def _inputs(found: Collection[InputStatus], lineages: Mapping[TaskId, Lineage]) -> tuple[InputStatus, ...]:
    """A reader that goes from one task's channel to the next has both: the one that goes on counts."""
    by_place: dict[tuple[TaskId, TaskId], InputStatus] = {}
    for status in found:
        if _leads(status.reader, lineages):
            key = place_of(status.reader), place_of(status.channel)
            known = by_place.get(key)
            if known is None or status.next_epoch >= known.next_epoch:
                by_place[key] = replace(status, reader=key[0], channel=key[1])
    return tuple(by_place.values())
