"""From a parsed SELECT to a placed plan: draft, check by Spark, place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from machine.faults import reached
from machine.tracing import span
from master.analysis.spark import Analyzer, RefusedStatementError
from master.base.errors import CatalogChangedError
from master.base.faults import FaultPoint
from master.batch.splits import SplitLister
from master.relations.catalog import CatalogManager
from master.sites.statistics import MeasuredRates
from master.sites.status import Sites
from planner.batch import BatchOptions
from planner.estimate.rates import task_rates
from planner.graph.clientplan import ClientQuery
from planner.graph.ids import VertexId
from planner.graph.plan import DraftPlan, PhysicalPlan, Split, StatementText
from planner.planning import Answer, Combined, Planning, Question, Refusal, place, place_batch, place_combining
from planner.planning.drafts import with_texts
from planner.relations.catalog import Catalog, Column, Function, Relation
from planner.rules.bounds import needed_rows
from planner.rules.ranges import with_ranges
from planner.rules.sending import with_fewer_bytes
from planner.sql.statements import SelectQuery, SinkTarget
from planner.values.trees import Tree
from planner.wan.snapshot import WanSnapshot

ATTEMPTS = 3
"""How often a query is planned again because the catalog changed meanwhile."""


class QueryAccess(Protocol):
    """Checks what the caller may read and write."""

    def check_reads(self, texts: Iterable[StatementText]) -> None:
        """Raises NotGrantedError unless the caller may read each relation that the query, or a view of it, names."""
        ...

    def check_writes(self, sink: Relation) -> None:
        """Raises NotGrantedError unless the caller may write into the sink."""
        ...


@dataclass(frozen=True, slots=True)
class PlanningParts:
    catalog: CatalogManager
    sites: Sites
    rates: MeasuredRates
    analyzer: Analyzer
    wan: Callable[[], WanSnapshot]
    """All links as they are known now."""
    splits: SplitLister
    access: QueryAccess | None = None
    """None: everybody may read and write everything."""


@dataclass(frozen=True, slots=True)
class Combining:
    """How sites combine their partials of a window before they send them."""

    tree: Tree | None = None
    """Over which sites they go; None: as the links' figures say."""


Settled = Callable[[Mapping[VertexId, str]], PhysicalPlan]
"""It places the plan anew, where these vertices are at these sites."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A placed plan, with what decisions about sharing need."""

    plan: PhysicalPlan
    relations: Mapping[str, Relation]
    """The streams and tables of the plan by name, as they were when it was made."""
    rates: Mapping[tuple[str, str], float]
    """Bytes per second that each task is expected to send, by stage and site; of a merge by stage and ""."""
    settled: Settled | None = None
    """None: it has no stage that another site could be chosen for."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What is known of a query that is possible."""

    columns: tuple[Column, ...]
    views: frozenset[str]
    """Lower-case names of the views that it uses, directly or through others."""


class QueryPlanner:
    """Plans on a snapshot of the catalog, and compares the snapshot's relations again before it returns the plan."""

    def __init__(self, parts: PlanningParts) -> None:
        self._parts = parts

    async def planned(
        self,
        select: SelectQuery,
        into: SinkTarget | None = None,
        options: BatchOptions | None = None,
        *,
        combine: Combining | None = None,
        parts: int = 1,
    ) -> Planned:
        """A plan whose relations are those of the catalog at this moment.

        Args:
            select: the query.
            into: the sink of an INSERT.
            options: for a query over tables alone; None: the defaults.
            combine: how sites combine their partials of a window before they send them; None: they do not.
            parts: of each merge, where it can have parts.

        Raises:
            PlannerError: the query cannot be run; the error says why and where.
            NotGrantedError: the caller may not read or write one of its relations.
            NoSiteAvailableError: nobody can check it now.
            CatalogChangedError: its relations changed again and again meanwhile.
        """
        with span("analyze"):
            planning = await self._settled(lambda: self._begun(select, into, parts))
        with span("place"):
            return await self._placed(planning.result(), options, combine)

    async def planned_client(
        self, query: ClientQuery, options: BatchOptions | None, into: SinkTarget | None = None
    ) -> Planned | None:
        """The plan of what a client of Spark asks for, or writes into a sink whose columns its plan has.

        Returns:
            None: it reads no table, and writes nowhere.

        Raises:
            PlannerError, MasterError: as `planned` does.
        """
        planning = self.begun_client(query, into)
        if planning.reads_nothing:
            return None
        with span("analyze"):
            planning = await self._settled(lambda: self.begun_client(query, into))
        with span("place"):
            return await self._placed(planning.result(), options, None)

    def begun_client(self, query: ClientQuery, into: SinkTarget | None = None) -> Planning:
        """A client's plan with its names looked up, and nothing asked yet.

        Raises:
            PlannerError: a name is unknown or that of a stream, or a SQL text in the plan is not possible.
            NotGrantedError: the caller may not read one of its relations, or write into the sink.
        """
        planning = Planning.of_client(query, self._parts.catalog.snapshot, into)
        self._check_access(planning)
        return planning

    async def _placed(self, draft: DraftPlan, options: BatchOptions | None, combine: Combining | None) -> Planned:
        parts, topology = self._parts, self._parts.sites.topology
        statistics, catalog = parts.rates.snapshot(), parts.catalog.snapshot
        if draft.batch:
            # The query shares nothing, so it needs no rates.
            options = options or BatchOptions()
            asked = parts.sites.alive()
            splits = await self._splits(draft, asked, options.split_bytes)
            # A site that came back meanwhile was not asked: without it, its rows would be missing.
            alive = asked & parts.sites.alive()
            known = {name: table.statistics for name in draft.relations if (table := catalog.find(name)) is not None}
            analysed = {name: found for name, found in known.items() if found is not None}
            draft = with_texts(with_fewer_bytes(draft, splits, topology, options.key_filters, analysed))
            return Planned(place_batch(draft, topology, splits, alive=alive, options=options), {}, {})
        alive, wan = parts.sites.alive(), parts.wan()
        if combine is None:
            draft = with_texts(with_ranges(draft))
            made = Combined(draft, place(draft, topology, statistics, alive=alive, wan=wan))
        else:
            made = place_combining(draft, topology, statistics, alive=alive, wan=wan, tree=combine.tree)
        plan = made.plan
        named = {stage.relation for stage in plan.stages if stage.relation is not None}
        relations = {name: relation for name in sorted(named) if (relation := catalog.find(name)) is not None}
        draft = made.draft

        def settled(sites: Mapping[VertexId, str]) -> PhysicalPlan:
            again = place(draft, topology, statistics, alive=alive, wan=wan, settled=sites)
            return replace(again, trees=plan.trees)

        return Planned(plan, relations, task_rates(draft, statistics), settled)

    async def _splits(self, draft: DraftPlan, alive: frozenset[str], split_bytes: int) -> tuple[Split, ...]:
        """The splits of the tables that MAPs read, from all sites concurrently; what several read is listed once."""
        parts = self._parts
        needed = {stage.id: needed_rows(stage, draft.relations[stage.relation or ""]) for stage in draft.map_stages}
        places = [(stage, site) for stage in draft.map_stages for site in stage.pinned if site in alive]
        wanted = {(stage.relation or "", site, needed[stage.id]): None for stage, site in places}
        found = await asyncio.gather(
            *(parts.splits.splits(parts.catalog.get(name), site, split_bytes, rows) for name, site, rows in wanted)
        )
        known = dict(zip(wanted, found, strict=True))
        return tuple(
            replace(split, stage=stage.id)
            for stage, site in places
            for split in known[stage.relation or "", site, needed[stage.id]]
        )

    async def check(self, select: SelectQuery) -> Checked:
        """The columns of a view of this query; raises as `planned` does, but not for lack of a site."""
        planning = await self._settled(lambda: self._begun(select, None, 1))
        return Checked(planning.result().columns, planning.views)

    async def _settled(self, begun: Callable[[], Planning]) -> Planning:
        """All questions about the query answered, on a catalog that did not change meanwhile."""
        for _ in range(ATTEMPTS):
            planning = await self._answered(begun())
            reached(FaultPoint.ANALYSED)
            if _used(planning, planning.catalog) == _used(planning, self._parts.catalog.snapshot):
                # A grant may have been revoked while Spark was checking.
                self._check_access(planning)
                return planning
        raise CatalogChangedError(
            "the streams, tables, views and functions of the query changed while it was checked",
            hint="submit it again",
        )

    def _begun(self, select: SelectQuery, into: SinkTarget | None, parts: int) -> Planning:
        planning = Planning.of(select, self._parts.catalog.snapshot, into, parts=parts)
        # Checked before any site is asked about the query.
        self._check_access(planning)
        return planning

    def _check_access(self, planning: Planning) -> None:
        """Raises NotGrantedError unless the caller may run the query."""
        access = self._parts.access
        if access is not None:
            access.check_reads(planning.draft.texts)
            if planning.sink is not None:
                access.check_writes(planning.sink)

    async def _answered(self, planning: Planning) -> Planning:
        """Asks the possible questions concurrently, and further ones as soon as answers make them possible."""
        asking: dict[asyncio.Task[Answer], Question] = {}
        try:
            while questions := planning.questions:
                under_way = {(question.part, question.name) for question in asking.values()}
                for question in questions:
                    if (question.part, question.name) not in under_way:
                        asking[asyncio.create_task(self._ask(question))] = question
                done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
                # In the order of the questions: errors in a user's text come before those of the planner's parts.
                for task in [task for task in asking if task in done]:
                    planning = planning.answered(asking.pop(task), task.result())
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return planning

    async def _ask(self, question: Question) -> Answer:
        analysis = question.analysis
        try:
            if analysis.scans:
                return await self._parts.analyzer.scans(
                    analysis.views, analysis.statement, analysis.functions, client=analysis.client
                )
            return await self._parts.analyzer.analyze(analysis.views, analysis.statement, analysis.functions)
        except RefusedStatementError as refused:
            return Refusal(refused.message, refused.line, refused.column, refused.fragment, refused.condition)


def _used(planning: Planning, catalog: Catalog) -> tuple[Relation | Function | None, ...]:
    """The relations and functions that a query names, as they are in the catalog."""
    draft, sink = planning.draft, planning.sink
    named = [name for text in draft.texts for name in text.relations]
    relations = map(catalog.find, [*named, *([sink.name] if sink is not None else [])])
    return (*relations, *(catalog.functions.get(function.name.lower()) for function in draft.functions))
