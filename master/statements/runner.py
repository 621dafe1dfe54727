"""Runs the statements of a script, in order."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace

from machine.clock import Clock
from machine.tracing import span
from master.access.caller import caller, note_query, note_statement
from master.access.grants import GrantManager
from master.access.ownership import check_live, check_statement, own
from master.access.rights import check_right
from master.base.errors import InvalidRequestError, MasterError, StatementTooLongError
from master.config.values import STATEMENT_LIMIT_BYTES
from master.planning.definitions import ViewDefinitions
from master.planning.deploying import NEW, Deployer
from master.planning.settings import (
    Settings,
    batch_options,
    checked_setting,
    combines,
    degrades,
    merge_parts,
    setting_rows,
    with_settings,
)
from master.planning.submission import Combining, Planned, QueryPlanner
from master.queries.registry import QueryRegistry
from master.reconcile.jobs import JobManager
from master.relations.catalog import CatalogManager
from master.relations.functions import FunctionManager
from master.sites.status import Sites
from master.statements import listings
from master.statements.analyze import analyze_json
from master.statements.analyze_text import analyze_text
from master.statements.functions import function_rows, run_function_statement
from master.statements.grants import grant_rows, run_grant_statement
from master.views.outcomes import Done, Explained, Outcome, SettingChanged
from master.views.queries import QueryViews
from planner.access.statements import STATEMENTS
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.relations.catalog import Column, RelationKind
from planner.sharing.deployment import Change, Deployment, deployment_json, deployment_lines
from planner.sql.analyze_ddl import statistics_query
from planner.sql.option_ddl import at_option
from planner.sql.script import parse_script
from planner.sql.statements import (
    AlterBinding,
    AnalyzeTable,
    CancelQuery,
    CreateFunction,
    CreateRelation,
    CreateView,
    Describe,
    DescribeFunction,
    DropFunction,
    DropRelation,
    Explain,
    ExplainAnalyze,
    Grant,
    InsertInto,
    PauseQuery,
    ResumeQuery,
    Revoke,
    SelectQuery,
    SetOption,
    Show,
    ShowTarget,
    SinkTarget,
    Statement,
)
from planner.text.explain import explain_json, explain_text
from planner.values.errors import PlannerError
from planner.values.topology import Topology

_LISTED = {
    ShowTarget.STREAMS: RelationKind.STREAM,
    ShowTarget.TABLES: RelationKind.TABLE,
    ShowTarget.VIEWS: RelationKind.VIEW,
    ShowTarget.SINKS: RelationKind.SINK,
}


@dataclass(frozen=True, slots=True)
class StatementParts:
    """The parts that statements act on."""

    catalog: CatalogManager
    definitions: ViewDefinitions
    jobs: JobManager
    planner: QueryPlanner
    queries: QueryRegistry
    sites: Sites
    views: QueryViews
    topology: Topology
    clock: Clock
    functions: FunctionManager
    deployer: Deployer
    grants: GrantManager
    defaults: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class _Script:
    """What a script has besides its statements."""

    query_name: str
    files: Mapping[str, str]
    settings: Settings


ALONE = "Sharing (net): nothing is taken from other queries or given to them; SET sharing = 'sana' changes that"
"""The text of EXPLAIN for a query that shares nothing."""


class StatementRunner:
    """Runs statements one by one; each is durable before the next begins."""

    def __init__(self, parts: StatementParts) -> None:
        self._parts = parts

    async def run(
        self,
        text: str,
        *,
        query_name: str = "",
        files: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[tuple[int, Outcome], None]:
        """The line of each statement, with its answer; the first error ends the script.

        The whole text is parsed before anything is done. `settings` are those that the sender changed before.

        Raises:
            PlannerError, MasterError: with the statement's place where the error has none of its own.
        """
        note_statement(text)
        statements = _parsed(text, query_name)
        for statement in statements:
            check_right(STATEMENTS[type(statement)], statement.position)
        given = dict(map(checked_setting, (settings or {}).keys(), (settings or {}).values()))
        for statement in statements:
            try:
                script = _Script(query_name, files or {}, with_settings(self._parts.defaults, given))
                outcome = await self._run(statement, script)
                if isinstance(outcome, SettingChanged):
                    given[outcome.name] = outcome.value
            except (MasterError, PlannerError) as error:
                error.position = error.position or statement.position
                raise
            yield statement.position.line, outcome

    async def columns_of(self, text: str) -> tuple[Column, ...]:
        """Return the columns of the query in which a text ends, without running it; SETs alone may stand before it.

        Raises:
            PlannerError, MasterError: as `run`, and for another text.
        """
        *before, last = _parsed(text, "")
        if not isinstance(last, SelectQuery) or not all(isinstance(one, SetOption) for one in before):
            raise InvalidRequestError("the text has more than a query, and SETs before it", hint="send one at a time")
        check_right(STATEMENTS[SelectQuery], last.position)
        given = dict(checked_setting(one.name, one.value) for one in before if isinstance(one, SetOption))
        planned = await self._planned(last, None, with_settings(self._parts.defaults, given))
        return planned.plan.columns

    async def _run(self, statement: Statement, script: _Script) -> Outcome:
        if isinstance(statement, CreateFunction | DropFunction | DescribeFunction):
            return await run_function_statement(statement, self._parts.functions, script.files)
        if isinstance(statement, SelectQuery | InsertInto | AnalyzeTable):
            return await self._submit(statement, script)
        if isinstance(statement, Explain):
            planned = await self._planned(statement.query, statement.target, script.settings)
            change = self._parts.deployer.deploy(NEW, planned, script.settings)
            placement = {**self._parts.queries.snapshots.placement, **change.placement}
            return explained(change.plan, change.deployment, placement)
        if isinstance(statement, SetOption):
            return SettingChanged(*checked_setting(statement.name, statement.value))
        if isinstance(statement, ExplainAnalyze):
            return self.analyzed(statement.query)
        if isinstance(statement, CancelQuery):
            return self._parts.views.of(self._parts.jobs.cancel(self._own(statement.query)))
        if isinstance(statement, PauseQuery | ResumeQuery):
            return self._paused_or_resumed(statement)
        if isinstance(statement, Grant | Revoke):
            return run_grant_statement(statement, self._parts.catalog, self._parts.grants)
        if isinstance(statement, Show):
            return self._show(statement.target, script.settings)
        if isinstance(statement, Describe):
            return listings.description(self._parts.catalog.get(statement.name, statement.kind))
        if isinstance(statement, CreateView):
            view, created = await self._parts.definitions.create(statement)
            return Done(f"view {view.name} {'created' if created else 'exists already'}")
        return self._declare(statement)

    async def _planned(self, select: SelectQuery, into: SinkTarget | None, settings: Settings) -> Planned:
        combine = Combining(settings.combine_tree) if combines(settings) else None
        planned = await self._parts.planner.planned(
            select, into, batch_options(settings), combine=combine, parts=merge_parts(settings)
        )
        plan = replace(planned.plan, adapting=settings.adapting, degrading=degrades(settings))
        return replace(planned, plan=plan)

    def _paused_or_resumed(self, statement: PauseQuery | ResumeQuery) -> Done:
        """Returns no query: the sender does not follow a query that somebody else submitted."""
        jobs = self._parts.jobs
        pauses = isinstance(statement, PauseQuery)
        query = self._own(statement.query)
        record = jobs.pause(query) if pauses else jobs.resume(query)
        return Done(f"query {record.id} is {record.state.value}")

    def _own(self, reference: str) -> str:
        """The id of a query that the caller may manage. Raises UnknownQueryError, AmbiguousQueryError,
        NotOwnerError."""
        return own(self._parts.queries.find(reference)).id

    def analyzed(self, reference: str) -> Explained:
        """The plan of a submitted query, with present measurements.

        Raises:
            UnknownQueryError, AmbiguousQueryError
        """
        parts = self._parts
        record = parts.queries.find(reference)
        measured = analyze_json(parts.views.of(record), parts.queries.snapshots.plan_of(record), now=parts.clock.now())
        return Explained(text=analyze_text(measured), json=json.dumps(measured))

    async def _submit(self, statement: SelectQuery | InsertInto | AnalyzeTable, script: _Script) -> Outcome:
        parts, name = self._parts, script.query_name
        parts.queries.lookup.check_name_free(name)
        owner = caller().name
        check_live(parts.queries.lookup.live_of(owner))
        select, into = self._asked(statement)
        with span("submit", name=name):
            planned = await self._planned(select, into, script.settings)

            def deploy(query: str) -> Change:
                with span("deploy", query=query):
                    return parts.deployer.deploy(query, planned, script.settings)

            # Checked again: the caller may have submitted others while this one was planned.
            check_live(parts.queries.lookup.live_of(owner))
            record = parts.jobs.submit(planned.plan, sql=statement.text, name=name, deploy=deploy, owner=owner)
            note_query(record.id)
            return parts.views.of(record)

    def _asked(self, statement: SelectQuery | InsertInto | AnalyzeTable) -> tuple[SelectQuery, SinkTarget | None]:
        """The query of a statement, and the sink for its results."""
        if isinstance(statement, InsertInto):
            return statement.query, statement.target
        if isinstance(statement, AnalyzeTable):
            table = self._parts.catalog.get(statement.name, RelationKind.TABLE)
            return statistics_query(statement, table), None
        return statement, None

    def _declare(self, statement: CreateRelation | DropRelation | AlterBinding) -> Done:
        if isinstance(statement, CreateRelation):
            relation, created = self._parts.jobs.create_relation(
                statement.relation, if_not_exists=statement.if_not_exists
            )
            what = "created at " + ", ".join(relation.sites) if created else "exists already"
            return Done(f"{relation.kind.value} {relation.name} {what}")
        if isinstance(statement, DropRelation):
            dropped = self._parts.jobs.drop_relation(statement.name, statement.kind, if_exists=statement.if_exists)
            return Done(f"{statement.name} {'dropped' if dropped else 'does not exist'}")
        with at_option(statement.written, (statement.position, "")):
            relation = self._parts.jobs.alter_binding(statement.name, statement.options, site=statement.site)
        return Done(f"{relation.kind.value} {relation.name} altered at {statement.site or ', '.join(relation.sites)}")

    def _show(self, target: ShowTarget, settings: Settings) -> Outcome:
        parts = self._parts
        if target is ShowTarget.SETTINGS:
            return setting_rows(settings)
        if target is ShowTarget.QUERIES:
            return listings.query_rows(parts.views.of(q) for q in parts.queries.all())
        if target is ShowTarget.GRANTS:
            return grant_rows(parts.grants)
        if target is ShowTarget.FUNCTIONS:
            return function_rows(parts.functions.all())
        if target is ShowTarget.SITES:
            return listings.site_rows(parts.sites.all(), parts.topology.gateway)
        kind = _LISTED[target]
        return listings.relation_rows(parts.catalog.relations(kind), kind)


def explained(plan: PhysicalPlan, deployment: Deployment | None, placement: Mapping[TaskId, str]) -> Explained:
    """A plan with its sites, and what it shares, with the sites of those tasks; without a deployment it
    shares nothing."""
    lines = (ALONE,) if deployment is None else deployment_lines(deployment)
    shared = None if deployment is None else deployment_json(deployment, placement)
    text = "\n".join((explain_text(plan), *lines))
    return Explained(text=text, json=json.dumps({**explain_json(plan), "sharing": shared}))


def _parsed(text: str, query_name: str) -> tuple[Statement, ...]:
    size_bytes = len(text.encode())
    if size_bytes > STATEMENT_LIMIT_BYTES:
        raise StatementTooLongError(
            f"the text is {size_bytes} bytes long", hint=f"{STATEMENT_LIMIT_BYTES} bytes at most; send it in parts"
        )
    check_statement(size_bytes)
    statements = parse_script(text)
    if not statements:
        raise InvalidRequestError("the text holds no statement", hint="as in SHOW STREAMS;")
    selects = sum(isinstance(s, SelectQuery | InsertInto) for s in statements)
    if query_name and selects != 1:
        raise InvalidRequestError(
            f"a name is given for one query, but the text holds {selects} of them",
            hint="give a name with a text that holds exactly one SELECT or INSERT INTO",
            ids={"name": query_name},
        )
    return statements
