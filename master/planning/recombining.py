"""Plans a query that runs once more, with tasks at its sites that combine."""

from __future__ import annotations

from dataclasses import dataclass

from master.base.errors import HandoverRefusedError
from master.planning.submission import Combining, QueryPlanner
from master.records.model import QueryRecord, StreamQuery
from planner.graph.plan import PhysicalPlan
from planner.sql.script import parse_script
from planner.sql.statements import InsertInto, SelectQuery
from planner.values.trees import Tree


@dataclass(frozen=True, slots=True)
class Recombiner:
    """Asks the planner."""

    planner: QueryPlanner

    async def planned(self, record: QueryRecord, tree: Tree | None) -> PhysicalPlan:
        """Return the plan that a query would have if it were submitted now and combined.

        Args:
            record: the query.
            tree: over which sites its partials go; None: as the links' figures say.

        Raises:
            HandoverRefusedError: the query reads tables alone.
            PlannerError, NoSiteAvailableError, CatalogChangedError: as `QueryPlanner.planned`.
        """
        (statement,) = parse_script(record.sql)
        if not isinstance(record, StreamQuery) or not isinstance(statement, SelectQuery | InsertInto):
            told = f"query {record.id} reads no stream"
            raise HandoverRefusedError(told, hint="only partials of streams are combined", ids={"query": record.id})
        select, into = (statement.query, statement.target) if isinstance(statement, InsertInto) else (statement, None)
        parts = max(stage.parts for stage in record.plan.stages)
        planned = await self.planner.planned(select, into, combine=Combining(tree), parts=parts)
        return planned.plan
