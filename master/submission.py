"""From a parsed SELECT to a placed plan: draft, check by Spark, place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from master.analysis import Analyzer, RefusedStatementError
from master.catalog import CatalogManager
from master.errors import CatalogChangedError
from master.sites import SiteRegistry
from master.statistics import MeasuredRates
from planner import planning
from planner.catalog import Catalog, Column, Relation
from planner.errors import InvalidExpressionError
from planner.placement import place
from planner.plan import BIN_COLUMN, Analysis, DraftPlan, PhysicalPlan
from planner.sql.statements import SelectQuery
from planner.topology import Topology

ATTEMPTS = 3
"""How often a query is planned anew because the catalog changed under it."""


@dataclass(frozen=True, slots=True)
class PlanningParts:
    catalog: CatalogManager
    sites: SiteRegistry
    rates: MeasuredRates
    analyzer: Analyzer
    topology: Topology


class QueryPlanner:
    """Plans on a snapshot of the catalog; the snapshot's relations are compared again before the plan is handed out."""

    def __init__(self, parts: PlanningParts) -> None:
        self._parts = parts

    async def plan(self, select: SelectQuery) -> PhysicalPlan:
        """A plan whose relations are as the catalog has them at this moment.

        Raises:
            PlannerError: the query cannot be run; the error says why and where.
            NoSiteAvailableError: nobody can check it now.
            CatalogChangedError: its relations changed again and again meanwhile.
        """
        for _ in range(ATTEMPTS):
            snapshot = self._parts.catalog.snapshot
            plan = await self._planned(select, snapshot)
            if _relations(plan, snapshot) == _relations(plan, self._parts.catalog.snapshot):
                return plan
        raise CatalogChangedError(
            "the streams and tables of the query changed while it was checked", hint="submit it again"
        )

    async def _planned(self, select: SelectQuery, catalog: Catalog) -> PhysicalPlan:
        draft = planning.draft_query(select, catalog)
        columns = await self._check_text(select, planning.analysis_of_query(draft, catalog))
        stage_columns: dict[str, tuple[Column, ...]] = {}
        for stage in draft.stages:
            stage_columns[stage.id] = await self._check_stage(draft, stage.id, stage_columns)
        draft = planning.with_columns(draft, stage_columns, columns)
        parts = self._parts
        return place(draft, parts.topology, parts.rates.snapshot(), alive=parts.sites.alive())

    async def _check_text(self, select: SelectQuery, analysis: Analysis) -> tuple[Column, ...]:
        """What the user wrote: Spark's answer is about a place in it."""
        try:
            return await self._parts.analyzer.analyze(analysis.views, analysis.statement)
        except RefusedStatementError as refused:
            raise planning.invalid_expression(
                select, line=refused.line, column=refused.column, message=refused.message, fragment=refused.fragment
            ) from refused

    async def _check_stage(
        self, draft: DraftPlan, stage_id: str, known: Mapping[str, tuple[Column, ...]]
    ) -> tuple[Column, ...]:
        """What the planner wrote: the text was right, so an answer against it is about its parts."""
        analysis = planning.analysis_of_stage(draft, stage_id, known)
        combine = planning.analysis_of_combine(draft, stage_id, known)
        try:
            columns = await self._parts.analyzer.analyze(analysis.views, analysis.statement)
            if combine is not None:
                _check_combine(combine, await self._parts.analyzer.analyze(combine.views, combine.statement))
        except RefusedStatementError as refused:
            raise InvalidExpressionError(
                f"Spark refuses stage {stage_id} of the plan: {refused.message}",
                found=refused.fragment,
                hint="the query is right as SQL, but does not run in parts; say it with other functions or types",
                ids={"stage": stage_id},
            ) from refused
        return columns


def _check_combine(combine: Analysis, found: tuple[Column, ...]) -> None:
    """Compacting open windows must not change the type of any column: its output is its input."""
    (declared,) = combine.views.values()
    wanted, types = ({c.name: c.type.replace(" ", "").upper() for c in columns} for columns in (declared, found))
    for name, kind in types.items():
        if name != BIN_COLUMN and wanted.get(name) != kind:
            raise RefusedStatementError(
                f"partials of {name} are {wanted.get(name)}, but {kind} when combined", line=0, column=0, fragment=""
            )


def _relations(plan: PhysicalPlan, catalog: Catalog) -> tuple[Relation | None, ...]:
    return tuple(catalog.find(stage.relation) for stage in plan.stages if stage.relation is not None)
