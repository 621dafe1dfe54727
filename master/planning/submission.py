"""From a parsed SELECT to a placed plan: draft, check by Spark, place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from machine.faults import reached
from machine.tracing import span
from master.analysis.spark import Analyzer, RefusedStatementError
from master.base.errors import CatalogChangedError
from master.base.faults import FaultPoint
from master.batch.splits import SplitLister
from master.relations.catalog import CatalogManager
from master.sites.registry import SiteRegistry
from master.sites.statistics import MeasuredRates
from planner import planning
from planner.batch import BatchOptions
from planner.estimate.rates import task_rates
from planner.graph.plan import Analysis, DraftPlan, PhysicalPlan, Split, StatementText
from planner.place.batch import place_batch
from planner.place.placement import place
from planner.relations.catalog import Catalog, Column, Function, Relation
from planner.rules.sinks import find_sink, with_sink
from planner.sql.statements import SelectQuery, SinkTarget
from planner.values.errors import InvalidExpressionError
from planner.values.names import BIN_COLUMN
from planner.wan.snapshot import WanSnapshot

ATTEMPTS = 3
"""How often a query is planned anew because the catalog changed under it."""


_Drafting = Callable[[SelectQuery, Catalog, Mapping[str, Sequence[Column]] | None], DraftPlan]


class QueryAccess(Protocol):
    """Knows what the caller may read and write."""

    def check_reads(self, texts: Iterable[StatementText]) -> None:
        """Raises NotGrantedError where a relation that a query or one of its views names may not be read."""
        ...

    def check_writes(self, sink: Relation) -> None:
        """Raises NotGrantedError where the sink may not be written into."""
        ...


@dataclass(frozen=True, slots=True)
class PlanningParts:
    catalog: CatalogManager
    sites: SiteRegistry
    rates: MeasuredRates
    analyzer: Analyzer
    wan: Callable[[], WanSnapshot]
    """All links as they are known now."""
    splits: SplitLister
    access: QueryAccess | None = None
    """None: everybody reads and writes everything."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A placed plan with what sharing goes by."""

    plan: PhysicalPlan
    relations: Mapping[str, Relation]
    """The streams and tables of the plan by name, as they were when it was made."""
    rates: Mapping[tuple[str, str], float]
    """Bytes per second that each task is expected to send, by stage and site; of a merge by stage and ""."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What is known of a query that could be run."""

    columns: tuple[Column, ...]
    views: frozenset[str]
    """Lower-case names of the views that it uses, through others too."""


class QueryPlanner:
    """Plans on a snapshot of the catalog; the snapshot's relations are compared again before the plan is handed out."""

    def __init__(self, parts: PlanningParts) -> None:
        self._parts = parts

    async def planned(
        self, select: SelectQuery, into: SinkTarget | None = None, options: BatchOptions | None = None
    ) -> Planned:
        """A plan whose relations are as the catalog has them at this moment.

        Args:
            select: the query.
            into: the sink of an INSERT.
            options: for a query over tables alone; None: the defaults.

        Raises:
            PlannerError: the query cannot be run; the error says why and where.
            NotGrantedError: the caller may not read or write one of its relations.
            NoSiteAvailableError: nobody can check it now.
            CatalogChangedError: its relations changed again and again meanwhile.
        """
        with span("analyze"):
            draft, sink = await self._settled(select, planning.draft_query, into)
        with span("place"):
            return await self._placed(draft, sink, into, options)

    async def _placed(
        self, draft: DraftPlan, sink: Relation | None, into: SinkTarget | None, options: BatchOptions | None
    ) -> Planned:
        parts, topology = self._parts, self._parts.sites.topology
        if into is not None and sink is not None:
            draft = with_sink(draft, into, sink)
        statistics, catalog = parts.rates.snapshot(), parts.catalog.snapshot
        if draft.batch:
            # Nothing is shared with it, so it needs no rates.
            options = options or BatchOptions()
            asked = parts.sites.alive()
            splits = await self._splits(draft, asked, options.split_bytes)
            # A site that has come back meanwhile was not asked: with it, its rows would be missing.
            alive = asked & parts.sites.alive()
            return Planned(place_batch(draft, topology, splits, alive=alive, options=options), {}, {})
        plan = place(draft, topology, statistics, alive=parts.sites.alive(), wan=parts.wan())
        named = {stage.relation for stage in plan.stages if stage.relation is not None}
        relations = {name: relation for name in sorted(named) if (relation := catalog.find(name)) is not None}
        return Planned(plan, relations, task_rates(draft, statistics))

    async def _splits(self, draft: DraftPlan, alive: frozenset[str], split_bytes: int) -> tuple[Split, ...]:
        """How the tables that MAPs read are cut, at all sites at once; each table at a site is looked at once."""
        parts = self._parts
        wanted = {(s.relation or "", site): None for s in draft.map_stages for site in s.pinned if site in alive}
        found = await asyncio.gather(
            *(parts.splits.splits(parts.catalog.get(name), site, split_bytes) for name, site in wanted)
        )
        known = dict(zip(wanted, found, strict=True))
        return tuple(
            replace(split, stage=stage.id)
            for stage in draft.map_stages
            for site in stage.pinned
            for split in known.get((stage.relation or "", site), ())
        )

    async def check(self, select: SelectQuery) -> Checked:
        """What a view of this query yields; raises as `plan` does, but for want of a site."""
        draft, _ = await self._settled(select, planning.draft_view)
        return Checked(draft.columns, frozenset(text.view for text in planning.analyses_of_views(draft)))

    async def _settled(
        self, select: SelectQuery, draft_of: _Drafting, into: SinkTarget | None = None
    ) -> tuple[DraftPlan, Relation | None]:
        """The checked draft, and the sink when there is one."""
        for _ in range(ATTEMPTS):
            snapshot = self._parts.catalog.snapshot
            sink = find_sink(into, snapshot) if into is not None else None
            draft = await self._checked(select, snapshot, draft_of, sink)
            reached(FaultPoint.ANALYSED)
            if _used(draft, sink, snapshot) == _used(draft, sink, self._parts.catalog.snapshot):
                # A grant may have been revoked while Spark was asked.
                self._check_access(draft, sink)
                return draft, sink
        raise CatalogChangedError(
            "the streams, tables, views and functions of the query changed while it was checked",
            hint="submit it again",
        )

    def _check_access(self, draft: DraftPlan, sink: Relation | None) -> None:
        """Raises NotGrantedError."""
        access = self._parts.access
        if access is not None:
            access.check_reads(draft.texts)
            if sink is not None:
                access.check_writes(sink)

    async def _checked(
        self, select: SelectQuery, catalog: Catalog, draft_of: _Drafting, sink: Relation | None
    ) -> DraftPlan:
        draft = draft_of(select, catalog, None)
        # Before any site is asked about it.
        self._check_access(draft, sink)
        # Side by side, for each check is a round trip; where both are refused, the user's text counts.
        checks = asyncio.create_task(self._check_parts(draft, lambda types: draft_of(select, catalog, types)))
        try:
            views = await self._check_views(draft, catalog)
            columns = await self._check_text(select, planning.analysis_of_query(draft, catalog, views))
            draft, stage_columns = await checks
        finally:
            checks.cancel()
            await asyncio.gather(checks, return_exceptions=True)
        return planning.with_columns(draft, stage_columns, columns)

    async def _check_parts(
        self, draft: DraftPlan, again: Callable[[Mapping[str, Sequence[Column]]], DraftPlan]
    ) -> tuple[DraftPlan, dict[str, tuple[Column, ...]]]:
        """The draft once the types of unions are known (`again` makes it of them), and the output of every stage."""
        unions: dict[str, tuple[Column, ...]] = {}
        while questions := planning.analyses_of_union(draft, unions):
            try:
                found = await asyncio.gather(*map(self._ask, questions.values()))
            except RefusedStatementError as refused:
                raise _refused_part("a UNION ALL", refused) from refused
            unions.update(zip(questions, found, strict=True))
            draft = again(unions)
        return draft, await self._check_stages(draft)

    async def _check_text(self, select: SelectQuery, analysis: Analysis) -> tuple[Column, ...]:
        """What the user wrote: Spark's answer is about a place in it."""
        try:
            return await self._ask(analysis)
        except RefusedStatementError as refused:
            line, column = planning.original_place(analysis, select.text, refused.line, refused.column)
            raise planning.invalid_expression(
                select, line=line, column=column, message=refused.message, fragment=refused.fragment
            ) from refused

    async def _check_views(self, draft: DraftPlan, catalog: Catalog) -> dict[str, tuple[Column, ...]]:
        """The columns of each view that the query uses: their definitions are bound anew with every use."""
        known: dict[str, tuple[Column, ...]] = {}
        for view in planning.analyses_of_views(draft):
            try:
                found = await self._ask(planning.analysis_of_view(draft, view, catalog, known))
            except RefusedStatementError as refused:
                raise InvalidExpressionError(
                    f"in view {view.view}: {refused.message}",
                    position=view.position,
                    found=refused.fragment,
                    hint=f"define it anew: CREATE OR REPLACE VIEW {view.view} AS ...",
                    ids={"relation": view.view},
                ) from refused
            known[view.view] = planning.columns_of_view(view, catalog, found)
        return known

    async def _ask(self, analysis: Analysis) -> tuple[Column, ...]:
        return await self._parts.analyzer.analyze(analysis.views, analysis.statement, analysis.functions)

    async def _check_stages(self, draft: DraftPlan) -> dict[str, tuple[Column, ...]]:
        """Output of every stage; those whose inputs are known are checked at the same time."""
        known: dict[str, tuple[Column, ...]] = {}
        while left := [stage for stage in draft.stages if stage.id not in known]:
            ready = [stage.id for stage in left if all(item.stage in known for item in stage.inputs)]
            found = await asyncio.gather(*(self._check_stage(draft, stage_id, known) for stage_id in ready))
            known.update(zip(ready, found, strict=True))
        return known

    async def _check_stage(
        self, draft: DraftPlan, stage_id: str, known: Mapping[str, tuple[Column, ...]]
    ) -> tuple[Column, ...]:
        """What the planner wrote: the text was right, so an answer against it is about its parts."""
        analysis = planning.analysis_of_stage(draft, stage_id, known)
        combines = planning.analyses_of_combines(draft, stage_id, known)
        try:
            columns, *combined = await asyncio.gather(self._ask(analysis), *map(self._ask, combines))
            for combine, answer in zip(combines, combined, strict=True):
                _check_combine(combine, answer)
        except RefusedStatementError as refused:
            raise _refused_part(f"stage {stage_id}", refused, {"stage": stage_id}) from refused
        return columns


def _refused_part(
    what: str, refused: RefusedStatementError, ids: dict[str, str] | None = None
) -> InvalidExpressionError:
    return InvalidExpressionError(
        f"Spark refuses {what} of the plan: {refused.message}",
        found=refused.fragment,
        hint="the query is right as SQL, but does not run in parts; say it with other functions or types",
        ids=ids,
    )


def _check_combine(combine: Analysis, found: tuple[Column, ...]) -> None:
    """Compacting open windows must not change the type of any column: its output is its input."""
    (declared,) = combine.views.values()
    wanted, types = ({c.name: c.type.replace(" ", "").upper() for c in columns} for columns in (declared, found))
    for name, kind in types.items():
        if name != BIN_COLUMN and wanted.get(name) != kind:
            raise RefusedStatementError(
                f"partials of {name} are {wanted.get(name)}, but {kind} when combined", line=0, column=0, fragment=""
            )


def _used(draft: DraftPlan, sink: Relation | None, catalog: Catalog) -> tuple[Relation | Function | None, ...]:
    """What a query names, as the catalog has it."""
    named = [name for text in draft.texts for name in text.relations]
    relations = map(catalog.find, [*named, *([sink.name] if sink is not None else [])])
    return (*relations, *(catalog.functions.get(function.name.lower()) for function in draft.functions))
