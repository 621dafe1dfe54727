"""Other COMBINEs for a query that runs: what its handover asks of them, and what follows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import chain

from master.base.errors import HandoverRefusedError
from master.queries.lineages import Lineages
from master.queries.sharing import deployment_of
from master.reconcile.around import Surroundings
from master.reconcile.begun import Begun
from master.reconcile.parts import JobParts
from master.records.model import QueryRecord
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.handover.model import Handover, Lineage, Swap
from planner.handover.refusals import Around, unready
from planner.sharing.deployment import Change, placed_alone
from planner.sharing.running import Running
from planner.sharing.swapping import (
    Recombine,
    combines_of,
    merge_stage,
    refusal,
    sources_read,
    swap_to,
    swapped_from_us,
    told,
)


class Swaps:
    """The part of `Handovers` that knows which tasks combine."""

    def __init__(self, parts: JobParts, lineages: Lineages, surroundings: Surroundings) -> None:
        self._parts = parts
        self._lineages = lineages
        self._surroundings = surroundings

    def asked(self, record: QueryRecord, wanted: PhysicalPlan, now: datetime, reason: str) -> Lineage:
        """Return the lineage of a query's merge, with a handover to a task that reads the COMBINEs of a plan.

        Args:
            record: the query.
            wanted: the query as it would be planned now, with its sites.
            now: the time.
            reason: why it is asked for.

        Raises:
            HandoverRefusedError: the query cannot go on so now.
        """
        running, swap = self._parts.queries.snapshots.held, swap_to(record.plan, wanted, told(wanted))
        place = self._merge_place(record, wanted)
        merge_site = running.site(place) if place is not None else ""
        refused = refusal(Recombine(record.id, record.plan, wanted, merge_site, deployment_of(record)))
        if refused is None and place is not None:
            refused = unready(self._around(place, swap, running))
        if refused is not None or place is None:
            message, hint = refused or (f"query {record.id} does not run", "look at selat query list")
            raise HandoverRefusedError(message, hint=hint, ids={"query": record.id})
        places = (place, *(one.id for one in combines_of(swap.plan, record.id)))
        generation = max(self._lineages.get(name).next_generation for name in places)
        to_site = placed_alone(swap.plan, record.id)[place]
        begun = Handover(generation, running.site(place), to_site, now, reason=reason, swap=swap)
        return self._lineages.get(place).begun(begun)

    def _merge_place(self, record: QueryRecord, wanted: PhysicalPlan) -> TaskId | None:
        """Return the place of the merge that is to read the COMBINEs of a plan; None: it has none, or none runs."""
        merge = merge_stage(wanted)
        place = None if merge is None else TaskId.of(record.id, merge.vertices[0])
        return place if place in self._parts.queries.snapshots.held.placement else None

    def _around(self, place: TaskId, swap: Swap, running: Running) -> Around:
        sites = placed_alone(swap.plan, place.query)
        new = combines_of(swap.plan, place.query)
        beside = {*running.with_inputs([place]), *(one.id for one in running.deployed if place in one.inputs)}
        return self._surroundings.of_new(
            {sites[one.id] for one in new} | {sites[place]},
            beside=beside,
            successor=sites[place],
        )

    def begun(self, place: TaskId, handover: Handover) -> tuple[Begun, ...]:
        """Return the new COMBINEs; those that read no source do not begin in the middle of anything."""
        plan = _swap(handover).plan
        read, sites = sources_read(plan, place.query), placed_alone(plan, place.query)
        return tuple(
            Begun(one.id._replace(generation=handover.generation), sites[one.id], late=bool(read[one.id]))
            for one in combines_of(plan, place.query)
        )

    def needed_us(self, place: TaskId, handover: Handover) -> int | None:
        """Return the watermark with which all windows are out that a new COMBINE leaves out; None: it is not known
        yet."""
        merge, whole_us = _swap(handover).plan.stage(place.stage).merge, handover.whole_after_us
        return None if merge is None or whole_us is None else swapped_from_us(whole_us, merge)

    def reads(self, place: TaskId, handover: Handover, running: Running) -> frozenset[TaskId]:
        """Return the places that the new COMBINEs read."""
        read = sources_read(_swap(handover).plan, place.query).values()
        return frozenset(chain.from_iterable(read)) & running.placement.keys()

    def changed(self, lineage: Lineage, from_epoch: int, now: datetime) -> tuple[Change, tuple[Lineage, ...]]:
        """Return what the query is once its merge reads the new COMBINEs, and who is in its places then."""
        handover, query = lineage.handover, lineage.place.query
        assert handover is not None
        swap, record = _swap(handover), self._parts.queries.get(query)
        sites = placed_alone(swap.plan, query)
        new, old = combines_of(swap.plan, query), combines_of(record.plan, query)
        took_s = (now - handover.asked_at).total_seconds()
        change = Change(
            self._parts.queries.snapshots.version,
            replace(swap.plan, sites={}),
            None,
            {lineage.place: handover.to_site, **{one.id: sites[one.id] for one in new}},
            f"combines by {swap.note} after {took_s:.1f} s: {handover.reason}",
            frozenset(one.id for one in new),
        )
        # A place that is given up keeps the number of its generations, should it be taken again.
        given = sorted({one.id for one in (*new, *old)})
        replaced = (self._lineages.get(place).replaced(handover.generation) for place in given)
        return change, (lineage.moved(from_epoch, now), *replaced)


def _swap(handover: Handover) -> Swap:
    assert handover.swap is not None
    return handover.swap
