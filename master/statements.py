"""Runs the statements of a script, in order."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from master import listings
from master.catalog import CatalogManager
from master.config import STATEMENT_LIMIT_BYTES
from master.errors import InvalidRequestError, MasterError, StatementTooLongError
from master.jobs import JobManager
from master.outcomes import Done, Explained, Outcome
from master.queries import QueryRegistry
from master.sites import SiteRegistry
from master.submission import QueryPlanner
from master.views import QueryViews
from planner.catalog import RelationKind
from planner.errors import PlannerError
from planner.explain import explain_json, explain_text
from planner.plan import PhysicalPlan
from planner.sql.script import parse_script
from planner.sql.statements import (
    AlterBinding,
    CancelQuery,
    CreateRelation,
    Describe,
    DropRelation,
    Explain,
    SelectQuery,
    Show,
    ShowTarget,
    Statement,
)
from planner.topology import Topology


@dataclass(frozen=True, slots=True)
class StatementParts:
    """What statements act on."""

    catalog: CatalogManager
    jobs: JobManager
    planner: QueryPlanner
    queries: QueryRegistry
    sites: SiteRegistry
    views: QueryViews
    topology: Topology


class StatementRunner:
    """Each statement is durable before the next begins."""

    def __init__(self, parts: StatementParts) -> None:
        self._parts = parts

    async def run(self, text: str, *, query_name: str = "") -> AsyncGenerator[tuple[int, Outcome], None]:
        """The line where each statement begins, and what it answers; the first error ends the script.

        The whole text is parsed before anything is done.

        Raises:
            PlannerError, MasterError: with the statement's place where the error has none of its own.
        """
        statements = _parsed(text, query_name)
        for statement in statements:
            try:
                outcome = await self._run(statement, query_name)
            except (MasterError, PlannerError) as error:
                error.position = error.position or statement.position
                raise
            yield statement.position.line, outcome

    async def _run(self, statement: Statement, query_name: str) -> Outcome:
        if isinstance(statement, SelectQuery):
            return await self._select(statement, query_name)
        if isinstance(statement, Explain):
            return explained(await self._parts.planner.plan(statement.query))
        if isinstance(statement, CancelQuery):
            return self._parts.views.of(self._parts.jobs.cancel(statement.query))
        if isinstance(statement, Show):
            return self._show(statement.target)
        if isinstance(statement, Describe):
            return listings.description(self._parts.catalog.get(statement.name, statement.kind))
        return self._declare(statement)

    async def _select(self, statement: SelectQuery, name: str) -> Outcome:
        self._parts.queries.check_name_free(name)
        plan = await self._parts.planner.plan(statement)
        return self._parts.views.of(self._parts.jobs.submit(plan, sql=statement.text, name=name))

    def _declare(self, statement: CreateRelation | DropRelation | AlterBinding) -> Done:
        if isinstance(statement, CreateRelation):
            relation, created = self._parts.catalog.create(statement.relation, if_not_exists=statement.if_not_exists)
            what = "created at " + ", ".join(relation.sites) if created else "exists already"
            return Done(f"{relation.kind.value} {relation.name} {what}")
        if isinstance(statement, DropRelation):
            dropped = self._parts.catalog.drop(statement.name, statement.kind, if_exists=statement.if_exists)
            return Done(f"{statement.name} {'dropped' if dropped else 'does not exist'}")
        relation = self._parts.jobs.alter_binding(statement.name, statement.options, site=statement.site)
        return Done(f"{relation.kind.value} {relation.name} altered at {statement.site or ', '.join(relation.sites)}")

    def _show(self, target: ShowTarget) -> Outcome:
        parts = self._parts
        if target is ShowTarget.QUERIES:
            return listings.query_rows(parts.views.of(q) for q in parts.queries.all())
        if target is ShowTarget.SITES:
            return listings.site_rows(parts.sites.all(), parts.topology.gateway)
        kind = RelationKind.STREAM if target is ShowTarget.STREAMS else RelationKind.TABLE
        return listings.relation_rows(parts.catalog.relations(kind), kind)


def explained(plan: PhysicalPlan) -> Explained:
    return Explained(text=explain_text(plan), json=json.dumps(explain_json(plan)))


def _parsed(text: str, query_name: str) -> tuple[Statement, ...]:
    size_bytes = len(text.encode())
    if size_bytes > STATEMENT_LIMIT_BYTES:
        raise StatementTooLongError(
            f"the text is {size_bytes} bytes long", hint=f"{STATEMENT_LIMIT_BYTES} bytes at most; send it in parts"
        )
    statements = parse_script(text)
    if not statements:
        raise InvalidRequestError("the text holds no statement", hint="as in SHOW STREAMS;")
    selects = sum(isinstance(s, SelectQuery) for s in statements)
    if query_name and selects != 1:
        raise InvalidRequestError(
            f"a name is given for one query, but the text holds {selects} SELECT statements",
            hint="give a name with a text that holds exactly one SELECT",
            ids={"name": query_name},
        )
    return statements
