"""Runs what a client asks for: its plan as a query of Selat, or a command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.connect import proto as pb

from contract.client_plans import has_own_columns
from master.access.caller import caller, note_query, note_statement
from master.access.ownership import check_live, check_statement
from master.base.errors import InvalidRequestError
from master.connect.answers import Batches, local_relation, progress, stream_of, texts
from master.connect.arguments import ARGUMENTS, with_values
from master.connect.catalog import ClientCatalog
from master.connect.operations import Operation
from master.connect.plans import checked, client_query, label_of
from master.connect.sessions import Session
from master.connect.sparks import Sparks
from master.connect.statements import catalog_answer, temporary_view
from master.connect.writes import Write, insert_of, into_columns, write_of
from master.planning.deploying import Deployer
from master.planning.settings import Settings, batch_options
from master.planning.submission import Planned, QueryPlanner
from master.queries.registry import QueryRegistry
from master.reconcile.jobs import JobManager
from master.records.model import QueryRecord, QueryState
from master.results.ending import cancelled, check_finished, give_up
from master.results.fetch import FetchStart, ResultFetcher
from master.statements.runner import StatementRunner
from master.views.outcomes import Done, Explained, Rows
from master.views.queries import QueryViews
from planner.batch import BatchOptions
from planner.connect.allowed import COMMANDS
from planner.graph.clientplan import ClientQuery, ClientView
from planner.relations.catalog import Function
from planner.rules.wholestages import client_views
from planner.sharing.deployment import Change
from planner.sql.script import parse_script
from planner.sql.source import START
from planner.sql.statements import Describe, Explain, SelectQuery, Show, SinkTarget
from planner.values.errors import PlannerError, UnsupportedSqlError

PROGRESS_S = 0.5
"""A client is told at this interval how far its query is."""
CLOCK = "spark.sql.session.timeZone"


@dataclass(frozen=True, slots=True)
class ExecutionParts:
    """The parts that executions use."""

    planner: QueryPlanner
    deployer: Deployer
    jobs: JobManager
    queries: QueryRegistry
    views: QueryViews
    results: ResultFetcher
    statements: StatementRunner
    sparks: Sparks
    catalog: ClientCatalog
    defaults: Settings


class Executions:
    """Executes plans of sessions."""

    def __init__(self, parts: ExecutionParts) -> None:
        self._parts = parts

    async def run(self, plan: Any, session: Session, operation: Operation) -> AsyncGenerator[Any, None]:
        """The responses to a plan, the last of which says that it is complete.

        Raises:
            PlannerError: the plan is not possible.
            MasterError: the caller may not do that, or it failed.
        """
        kind = plan.WhichOneof("op_type")
        if kind == "root":
            responses = self._relation(plan.root, session, operation)
        elif kind == "command":
            responses = self._command(plan.command, session, operation)
        else:
            raise UnsupportedSqlError("a compressed plan is not possible", found=str(kind))
        async with aclosing(responses):
            async for response in responses:
                yield response
        yield pb.ExecutePlanResponse(result_complete=pb.ExecutePlanResponse.ResultComplete())

    async def _command(self, command: Any, session: Session, operation: Operation) -> AsyncGenerator[Any, None]:
        kind = command.WhichOneof("command_type")
        if kind not in COMMANDS:
            raise UnsupportedSqlError(
                f"command {kind} is not possible",
                found=str(kind),
                hint="write into a sink, and keep rows at the client",
            )
        if kind == "create_dataframe_view":
            await self._view(command.create_dataframe_view, session)
            return
        if kind != "sql_command":
            async with aclosing(self._write(write_of(command), session, operation)) as responses:
                async for response in responses:
                    yield response
            return
        relation = with_values(_text_of(command.sql_command))
        view = temporary_view(relation)
        text = relation.sql.query if relation.WhichOneof("rel_type") == "sql" else ""
        answer = None
        if view is not None:
            await self._view(view, session)
            answer = texts((), [])
        elif (insert := insert_of(text)) is not None:
            planned = await self._parts.planner.planned(insert.query, insert.target, self._options(session))
            async with aclosing(self._done(planned, text, operation, session)) as responses:
                async for response in responses:
                    yield response
            answer = texts((), [])
        elif relation.WhichOneof("rel_type") == "sql":
            answer = await self._answered(relation.sql.query, session)
        if answer is not None:
            relation = local_relation(answer)
        else:
            # Refused now, as Spark does, and not only when it is executed.
            checked(relation, session.views)
        yield pb.ExecutePlanResponse(sql_command_result=pb.ExecutePlanResponse.SqlCommandResult(relation=relation))

    async def _view(self, command: Any, session: Session) -> None:
        if command.is_global:
            raise UnsupportedSqlError("global temporary views are not possible", hint="make a view: CREATE VIEW")
        name = command.name.strip().strip("`")
        if not name.isidentifier():
            raise InvalidRequestError(f"a temporary view cannot be called {name[:80]!r}", hint="as in my_view")
        if not command.replace and name.lower() in session.views:
            raise InvalidRequestError(
                f"there is a temporary view {name}",
                hint="createOrReplaceTempView replaces it",
                ids={"condition": "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"},
            )
        relation = checked(command.input, session.views)
        question = pb.AnalyzePlanRequest(schema=pb.AnalyzePlanRequest.Schema(plan=pb.Plan(root=relation)))
        await self.ask(question, [relation], session)
        session.add_view(name, relation)

    async def _answered(self, text: str, session: Session) -> Any | None:
        """The answer to a statement that is no query, None for one that is; raises UnsupportedSqlError for others."""
        found = catalog_answer(text, self._parts.catalog, session)
        if found is not None or _is_query(text):
            return found
        statements = parse_script(text)
        if len(statements) != 1 or not isinstance(statements[0], Show | Describe | Explain):
            raise UnsupportedSqlError(
                "a Spark client may send queries, INSERT INTO, SHOW, DESCRIBE and EXPLAIN alone",
                hint="declare by Selat's own client: selat sql",
            )
        table = texts(("result",), [])
        async with aclosing(self._parts.statements.run(text)) as outcomes:
            async for _, outcome in outcomes:
                if isinstance(outcome, Rows):
                    table = texts(outcome.columns, outcome.rows)
                elif isinstance(outcome, Explained | Done):
                    table = texts(("plan",), [(outcome.text,)])
        return table

    async def ask(self, question: Any, relations: list[Any], session: Session) -> Any:
        """Spark's answer to an `AnalyzePlanRequest` whose relations were checked and stand in the question.

        Raises:
            PlannerError, MasterError: a name is unknown, or the caller may not read it, or Spark refuses it.
        """
        parts = self._parts
        tables: dict[str, Any] = {}
        views: dict[str, ClientView] = {}
        functions: dict[str, Function] = {}
        query: ClientQuery | None = None
        for relation in relations:
            query = client_query(relation, session.settings, session.site)
            planning = parts.planner.begun_client(query)
            whole = planning.draft.whole
            assert whole is not None
            tables |= {table.name: table.columns for table in whole.tables}
            views |= {view.name: view for view in client_views(whole, query.plan)}
            functions |= {function.versioned_name: function for function in planning.draft.functions}
        query = query or client_query(pb.Relation(), session.settings, session.site)
        plan = replace(query.plan, relation="", views=tuple(views.values()))
        answer = await parts.sparks.ask(tables, plan, question.SerializeToString(), tuple(functions.values()))
        return pb.AnalyzePlanResponse.FromString(answer)

    async def _relation(self, given: Any, session: Session, operation: Operation) -> AsyncGenerator[Any, None]:
        if given.WhichOneof("rel_type") == "catalog":
            table = self._parts.catalog.answer(given.catalog, session)
            yield Batches(None, "UTC").response(stream_of(table), table.num_rows)
            return
        given = with_values(given)
        relation = checked(given, session.views)
        self._parts.sparks.check_site(session.site)
        query = client_query(relation, session.settings, session.site)
        check_statement(sum(len(text.encode()) for text in query.texts))
        note_statement(query.plan.relation)
        asked = asyncio.create_task(self._schema(relation, session))
        try:
            planned = await self._planned(relation, query, session)
            source = self._direct(query)
            if planned is not None:
                source = self._query(planned, label_of(given), operation, session)
            async with aclosing(source):
                batches: Batches | None = None
                async for item in source:
                    if not isinstance(item, tuple):
                        yield item
                        continue
                    if batches is None:
                        schema = None if has_own_columns(relation) else await asked
                        batches = Batches(schema, session.settings.get(CLOCK, "UTC"))
                    yield batches.response(*item)
            if batches is None:
                yield Batches(await asked, session.settings.get(CLOCK, "UTC")).nothing()
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    async def _planned(self, relation: Any, query: ClientQuery, session: Session) -> Planned | None:
        """The plan; None: it reads no table. A text alone is planned as one of `selat sql`, which may send less."""
        planner, options = self._parts.planner, self._options(session)
        if planner.begun_client(query).reads_nothing:
            return None
        if relation.WhichOneof("rel_type") == "sql" and not query.plan.site and not query.plan.settings:
            try:
                (statement,) = parse_script(relation.sql.query)
                if isinstance(statement, SelectQuery):
                    return await planner.planned(statement, None, options)
            except (PlannerError, ValueError):
                # It may be possible as a plan, for example with columns of equal names; if not, planning it says why.
                pass
        return await planner.planned_client(query, options)

    def _options(self, session: Session) -> BatchOptions:
        options = batch_options(self._parts.defaults)
        return replace(options, reuse=options.reuse or session.caches)

    async def _write(self, write: Write, session: Session, operation: Operation) -> AsyncGenerator[Any, None]:
        """Progress, until all rows of a relation are in a sink."""
        sink = self._parts.catalog.sink(write.sink)
        relation = checked(write.relation, session.views)
        self._parts.sparks.check_site(session.site)
        relation = into_columns(replace(write, relation=relation), await self._schema(relation, session), sink)
        query = client_query(relation, session.settings, session.site)
        check_statement(sum(len(text.encode()) for text in query.texts))
        note_statement(query.plan.relation)
        target = SinkTarget(sink.name, START)
        planned = await self._parts.planner.planned_client(query, self._options(session), target)
        assert planned is not None
        label = f"-- into {sink.name}\n{label_of(write.relation)}"
        async with aclosing(self._done(planned, label, operation, session)) as responses:
            async for response in responses:
                yield response

    async def _done(
        self, planned: Planned, label: str, operation: Operation, session: Session
    ) -> AsyncGenerator[Any, None]:
        """Progress, until a query without results for the client, which ends with the operation, has finished."""
        with self._running(planned, label, operation) as query:
            while not self._parts.queries.get(query).state.over:
                self._parts.sparks.check_site(session.site)
                self._check_wanted(query)
                yield self._progress(query)
                await asyncio.sleep(PROGRESS_S)

    async def _schema(self, relation: Any, session: Session) -> Any:
        question = pb.AnalyzePlanRequest(schema=pb.AnalyzePlanRequest.Schema(plan=pb.Plan(root=relation)))
        answered = await self.ask(question, [relation], session)
        return answered.schema.schema

    async def _direct(self, query: ClientQuery) -> AsyncGenerator[Any, None]:
        """The rows of a plan that reads no table: it is no query of Selat."""
        async with aclosing(self._parts.sparks.run(query.plan)) as responses:
            async for response in responses:
                yield response.arrow_stream, response.rows

    async def _query(
        self, planned: Planned, label: str, operation: Operation, session: Session
    ) -> AsyncGenerator[Any, None]:
        """Progress, then the rows of a query that ends with the operation."""
        with self._running(planned, label, operation) as query:
            fetched = self._parts.results.fetch(query, FetchStart(), follow=True)
            async with aclosing(fetched):
                waiting = asyncio.ensure_future(anext(fetched, None))
                try:
                    while True:
                        done, _ = await asyncio.wait({waiting}, timeout=PROGRESS_S)
                        if not done:
                            self._parts.sparks.check_site(session.site)
                            self._check_wanted(query)
                            yield self._progress(query)
                            continue
                        epoch = waiting.result()
                        if epoch is None:
                            break
                        yield epoch.arrow_stream, epoch.rows
                        waiting = asyncio.ensure_future(anext(fetched, None))
                finally:
                    waiting.cancel()
                    await asyncio.gather(waiting, return_exceptions=True)

    @contextmanager
    def _running(self, planned: Planned, label: str, operation: Operation) -> Iterator[str]:
        """Submit a query, whose id it yields, and cancel it if the block ends before the query does.

        Raises:
            PlanFailedError, OperationCancelledError: the query is over, and has not finished.
        """
        record = self._submitted(planned, label)
        operation.query = record.id
        try:
            yield record.id
            check_finished(self._parts.queries, record.id)
        finally:
            give_up(self._parts.queries, self._parts.jobs, record.id)

    def _submitted(self, planned: Planned, label: str) -> QueryRecord:
        parts, owner = self._parts, caller().name
        check_live(parts.queries.lookup.live_of(owner))

        def deploy(query: str) -> Change:
            return parts.deployer.deploy(query, planned, parts.defaults)

        record = parts.jobs.submit(planned.plan, sql=label, deploy=deploy, owner=owner)
        note_query(record.id)
        return record

    def _progress(self, query: str) -> Any:
        batch = self._parts.views.of(self._parts.queries.get(query), summary=True).batch
        if batch is None:
            return progress(0, 1, 0)
        return progress(batch.done, batch.tasks, batch.done_bytes)

    def _check_wanted(self, query: str) -> None:
        """Raises OperationCancelledError as soon as somebody has cancelled the query: its tasks may take a while."""
        if self._parts.queries.get(query).state in (QueryState.CANCELLING, QueryState.CANCELLED):
            raise cancelled(query)


def _text_of(command: Any) -> Any:
    """The relation that a `SqlCommand` has; earlier clients put the text and its arguments into the command itself."""
    if command.input.WhichOneof("rel_type"):
        return command.input
    relation = pb.Relation(sql=pb.SQL(query=command.sql))
    for name in ARGUMENTS:
        getattr(relation.sql, name).MergeFrom(getattr(command, name))
    return relation


def _is_query(text: str) -> bool:
    """Return whether a SQL text is a query; what is not known as a statement of ours is left to Spark as a query."""
    words = text.split(None, 1)
    first = words[0].upper().lstrip("(") if words else ""
    if first in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", ""):
        return True
    statements = parse_script(text)
    return len(statements) == 1 and isinstance(statements[0], SelectQuery)
