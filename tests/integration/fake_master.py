"""A master that answers from memory, on a real gRPC server; tests decide what its queries deliver and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
import pyarrow as pa

from selat.source.statements import split_statements
from selat.v1 import (
    adaptation_pb2,
    adaptation_pb2_grpc,
    catalog_pb2,
    catalog_pb2_grpc,
    common_pb2,
    query_pb2,
    query_pb2_grpc,
    site_pb2,
    site_pb2_grpc,
    wan_pb2_grpc,
)
from tests.integration.fake_sites import T0_US, sites
from tests.integration.no_links import NoLinks

PLAN = """\
stages
  s1 source at us, eu
  s2 merge at us"""


def arrow_stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def clicks(*users: int) -> pa.RecordBatch:
    """A result batch: a page visit of each user."""
    return pa.RecordBatch.from_pydict(
        {
            "user_id": pa.array(users, pa.int64()),
            "page": pa.array([f"/p{user}" for user in users], pa.string()),
            "ts": pa.array([T0_US + user * 1_000_000 for user in users], pa.timestamp("us", tz="UTC")),
        }
    )


@dataclass
class FakeQuery:
    message: query_pb2.Query
    epochs: list[query_pb2.FetchResultsResponse] = field(default_factory=list)


class FakeMaster(
    query_pb2_grpc.QueryServiceServicer,
    catalog_pb2_grpc.CatalogServiceServicer,
    site_pb2_grpc.SiteServiceServicer,
    adaptation_pb2_grpc.AdaptationServiceServicer,
):
    """Start it, stop it, start it again: it keeps its address and its queries."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.queries: dict[str, FakeQuery] = {}
        self.relations: dict[str, common_pb2.Relation] = {}
        self.functions: dict[str, common_pb2.Function] = {}
        self.files: dict[str, str] = {}
        """Texts of modules that came with the last script."""
        self.sites = sites()
        self.executed: list[str] = []
        self.cursors: list[dict[str, int]] = []
        """The cursor of every FetchResults call."""
        self.fetch_failures: list[grpc.StatusCode] = []
        """Taken from the front: the status with which the next FetchResults calls break off after one epoch."""
        self.first_epoch = 0
        """The first epoch that is kept of all results; earlier ones are gone."""
        self.on_submit: list[pa.RecordBatch] | None = [clicks(1, 2), clicks(3)]
        """What a submitted query delivers before it finishes at once; None: it stays running."""
        self.fail_with = ""
        """Reason with which submitted queries fail after delivering; empty: they finish."""
        self.looks_with_a_merge = 0
        """The number of answers that show a draining site with a merge on it."""
        self.undrained_meanwhile = False
        """True when a draining site turns out not to be draining any more."""
        self.members = site_pb2.DescribeMembersResponse()
        self.silent = False
        """Whether ListQueries never answers."""
        self._server: grpc.Server | None = None
        self._stopping = threading.Event()
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._stopping.clear()
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
        query_pb2_grpc.add_QueryServiceServicer_to_server(self, self._server)
        catalog_pb2_grpc.add_CatalogServiceServicer_to_server(self, self._server)
        site_pb2_grpc.add_SiteServiceServicer_to_server(self, self._server)
        adaptation_pb2_grpc.add_AdaptationServiceServicer_to_server(self, self._server)
        wan_pb2_grpc.add_WanServiceServicer_to_server(NoLinks(), self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def stop(self) -> None:
        self._stopping.set()
        with self.changed:
            self.changed.notify_all()
        if self._server is not None:
            self._server.stop(grace=None).wait()

    # What tests do to it.

    def add_query(self, sql: str = "SELECT * FROM clicks", *, name: str = "") -> str:
        query_id = f"q-{len(self.queries) + 1:04d}-abcdef"
        message = query_pb2.Query(
            id=query_id,
            name=name,
            sql=sql,
            state=query_pb2.QUERY_STATE_RUNNING,
            submitted_at_us=T0_US,
            started_at_us=T0_US + 500_000,
            gateway="us",
            rows_in=10,
            columns=[
                common_pb2.Column(name="user_id", type="BIGINT"),
                common_pb2.Column(name="page", type="STRING"),
                common_pb2.Column(name="ts", type="TIMESTAMP"),
            ],
            tasks=[_task(query_id)],
            links=[common_pb2.LinkUse(from_site="eu", to_site="us", bytes=1_500_000, epochs=3, bytes_per_s=2000.0)],
            watermark_us=T0_US + 5_000_000,
        )
        with self.changed:
            self.queries[query_id] = FakeQuery(message)
            self.changed.notify_all()
        return query_id

    def publish(self, query_id: str, batch: pa.RecordBatch, *, site: str = "us") -> None:
        with self.changed:
            query = self.queries[query_id]
            channel = f"{query_id}.s1.p{int(site == 'us')}"
            epoch = sum(e.channel == channel for e in query.epochs)
            query.epochs.append(
                query_pb2.FetchResultsResponse(
                    channel=channel,
                    epoch=epoch,
                    arrow_stream=arrow_stream(batch),
                    rows=batch.num_rows,
                    watermark_us=T0_US + epoch * 1_000_000,
                )
            )
            query.message.rows_out += batch.num_rows
            self.changed.notify_all()

    def emit(self, query_id: str, delay_s: float) -> None:
        """Windows of the query's task are out, so long after their end."""
        with self.changed:
            (task,) = self.queries[query_id].message.tasks
            task.figures["emissions"] += 1
            task.figures["emit_delay_s"] = delay_s
            self.changed.notify_all()

    def end(self, query_id: str, state: int = query_pb2.QUERY_STATE_FINISHED, reason: str = "") -> None:
        with self.changed:
            message = self.queries[query_id].message
            message.state = state  # type: ignore[assignment]
            message.reason = reason
            message.ended_at_us = T0_US + 65_000_000
            self.changed.notify_all()

    # QueryService

    def Execute(self, request: query_pb2.ExecuteRequest, context: Any) -> Iterator[query_pb2.ExecuteResponse]:
        self.files = dict(request.files)
        for statement in split_statements(request.text).statements:
            self.executed.append(statement)
            yield self._execute(statement, request, context)

    def _execute(self, statement: str, request: query_pb2.ExecuteRequest, context: Any) -> query_pb2.ExecuteResponse:
        words = [w for line in statement.splitlines() if not line.startswith("--") for w in line.upper().split()]
        if "nope" in statement:
            self._refuse_nope(request.text, context)
        if words[0] == "SELECT":
            return query_pb2.ExecuteResponse(query=self._submit(statement, request.query_name))
        if words[0] == "INSERT":
            return query_pb2.ExecuteResponse(query=self._insert(statement, words[2].lower(), request.query_name))
        if words[0] == "SHOW":
            return query_pb2.ExecuteResponse(rows=self._shown(words[1]))
        if words[0] == "EXPLAIN":
            return query_pb2.ExecuteResponse(explanation=self._plan())
        if words[0] in ("CREATE", "DROP", "ALTER", "CANCEL"):
            return query_pb2.ExecuteResponse(done=f"{words[0].lower()} done")
        return self._abort(
            context, grpc.StatusCode.INVALID_ARGUMENT, code="SYNTAX_ERROR", message="this is no statement"
        )

    def _shown(self, what: str) -> query_pb2.RowSet:
        kind = common_pb2.RELATION_KIND_STREAM if what == "STREAMS" else common_pb2.RELATION_KIND_TABLE
        shown = query_pb2.RowSet(columns=["name", "sites", "columns"])
        for relation in self.relations.values():
            if relation.kind == kind:
                sites = ", ".join(b.site for b in relation.bindings)
                shown.rows.add(values=[relation.name, sites, ", ".join(c.name for c in relation.columns)])
        return shown

    def _refuse_nope(self, text: str, context: Any) -> NoReturn:
        before = text[: text.index("nope")]
        self._abort(
            context,
            grpc.StatusCode.INVALID_ARGUMENT,
            code="UNKNOWN_COLUMN",
            message="no column is named nope",
            line=before.count("\n") + 1,
            column=len(before) - (before.rfind("\n") + 1) + 1,
            found="nope",
            hint="columns of clicks: user_id, page, ts",
        )

    def _submit(self, sql: str, name: str) -> query_pb2.Query:
        query_id = self.add_query(sql, name=name)
        for batch in self.on_submit or ():
            self.publish(query_id, batch)
        if self.fail_with:
            self.end(query_id, query_pb2.QUERY_STATE_FAILED, self.fail_with)
        elif self.on_submit is not None:
            self.end(query_id)
        return self.queries[query_id].message

    def _insert(self, sql: str, sink: str, name: str) -> query_pb2.Query:
        """A query whose rows go elsewhere."""
        query_id = self.add_query(sql, name=name)
        message = self.queries[query_id].message
        message.sink, message.sink_site = sink, "eu"
        message.rows_out = sum(batch.num_rows for batch in self.on_submit or ())
        if self.fail_with:
            self.end(query_id, query_pb2.QUERY_STATE_FAILED, self.fail_with)
        elif self.on_submit is not None:
            self.end(query_id)
        return message

    def ListQueries(self, request: query_pb2.ListQueriesRequest, context: Any) -> query_pb2.ListQueriesResponse:
        if self.silent:
            self._stopping.wait()
        messages = [q.message for q in self.queries.values() if request.all or not _over(q.message)]
        return query_pb2.ListQueriesResponse(queries=messages)

    def ListSharing(self, request: query_pb2.ListSharingRequest, context: Any) -> query_pb2.ListSharingResponse:
        shared = (operator for q in self.queries.values() for operator in q.message.sharing.operators)
        return query_pb2.ListSharingResponse(operators=shared)

    def GetQuery(self, request: query_pb2.GetQueryRequest, context: Any) -> query_pb2.GetQueryResponse:
        return query_pb2.GetQueryResponse(query=self._find(request.query, context).message)

    def ExplainQuery(self, request: query_pb2.ExplainQueryRequest, context: Any) -> query_pb2.ExplainQueryResponse:
        found = self._find(request.query, context).message
        if request.analyze:
            measured = query_pb2.Explanation(text=f"Query {found.id}", json=f'{{"query": "{found.id}", "links": []}}')
            return query_pb2.ExplainQueryResponse(explanation=measured)
        return query_pb2.ExplainQueryResponse(explanation=self._plan())

    def CancelQuery(self, request: query_pb2.CancelQueryRequest, context: Any) -> query_pb2.CancelQueryResponse:
        found = self._find(request.query, context)
        self.end(found.message.id, query_pb2.QUERY_STATE_CANCELLED)
        return query_pb2.CancelQueryResponse(query=found.message)

    def PauseQuery(self, request: query_pb2.PauseQueryRequest, context: Any) -> query_pb2.PauseQueryResponse:
        return query_pb2.PauseQueryResponse(query=self._moved(request.query, query_pb2.QUERY_STATE_PAUSED, context))

    def ResumeQuery(self, request: query_pb2.ResumeQueryRequest, context: Any) -> query_pb2.ResumeQueryResponse:
        return query_pb2.ResumeQueryResponse(query=self._moved(request.query, query_pb2.QUERY_STATE_RESUMING, context))

    def _moved(self, query: str, state: query_pb2.QueryState.ValueType, context: Any) -> query_pb2.Query:
        message = self._find(query, context).message
        message.state = state
        return message

    def WatchQuery(self, request: query_pb2.WatchQueryRequest, context: Any) -> Iterator[query_pb2.WatchQueryResponse]:
        found = self._find(request.query, context)
        while not self._stopping.is_set():
            with self.changed:
                answer = query_pb2.WatchQueryResponse()
                answer.query.CopyFrom(found.message)
            yield answer
            if _over(answer.query) or not context.is_active():
                return
            with self.changed:
                self.changed.wait(timeout=min(0.1, request.interval_ms / 1000))

    def FetchResults(
        self, request: query_pb2.FetchResultsRequest, context: Any
    ) -> Iterator[query_pb2.FetchResultsResponse]:
        found = self._find(request.query, context)
        if found.message.sink:
            text = f"query {found.message.id} writes into sink {found.message.sink}, and has no results to fetch"
            self._abort(context, grpc.StatusCode.FAILED_PRECONDITION, code="NO_RESULTS", message=text)
        cursor = {c.channel: c.epoch for c in request.cursor}
        self.cursors.append(cursor)
        wanted = self.first_epoch if request.from_first else request.from_epoch
        if any(cursor.get(epoch.channel, wanted) < self.first_epoch for epoch in found.epochs):
            ids = {"query": found.message.id, "channel": "c", "first_epoch": str(self.first_epoch)}
            text = f"epoch {wanted} is no longer kept"
            self._abort(context, grpc.StatusCode.OUT_OF_RANGE, code="RESULTS_GONE", message=text, ids=ids)
        broken = self.fetch_failures.pop(0) if self.fetch_failures else None
        sent = 0
        while not self._stopping.is_set() and context.is_active():
            with self.changed:
                over = _over(found.message)
                due = [e for e in found.epochs[sent:] if e.epoch >= cursor.get(e.channel, wanted)]
                sent = len(found.epochs)
            for epoch in due:
                yield epoch
                if broken is not None:
                    context.abort(broken, "broken off by the test")
            if over or not request.follow:
                yield query_pb2.FetchResultsResponse(query=found.message)
                return
            with self.changed:
                if len(found.epochs) == sent:
                    self.changed.wait(timeout=0.1)

    # AdaptationService

    def ListDecisions(
        self, request: adaptation_pb2.ListDecisionsRequest, context: Any
    ) -> adaptation_pb2.ListDecisionsResponse:
        return adaptation_pb2.ListDecisionsResponse()

    def GetQueryHistory(
        self, request: adaptation_pb2.GetQueryHistoryRequest, context: Any
    ) -> adaptation_pb2.GetQueryHistoryResponse:
        message = self._find(request.query, context).message
        change = adaptation_pb2.QueryChange(state="running", reason="all tasks run")
        moments = [adaptation_pb2.QueryMoment(at_us=message.started_at_us, change=change)]
        return adaptation_pb2.GetQueryHistoryResponse(query_id=message.id, moments=moments)

    # CatalogService

    def ListRelations(
        self, request: catalog_pb2.ListRelationsRequest, context: Any
    ) -> catalog_pb2.ListRelationsResponse:
        wanted = [r for r in self.relations.values() if request.kind in (0, r.kind)]
        return catalog_pb2.ListRelationsResponse(relations=wanted)

    def GetRelation(self, request: catalog_pb2.GetRelationRequest, context: Any) -> catalog_pb2.GetRelationResponse:
        return catalog_pb2.GetRelationResponse(relation=self._relation(request.name, context))

    def CreateRelation(
        self, request: catalog_pb2.CreateRelationRequest, context: Any
    ) -> catalog_pb2.CreateRelationResponse:
        exists = request.relation.name in self.relations
        if exists and not request.if_not_exists and not request.or_replace:
            message = f"{request.relation.name} exists"
            self._abort(context, grpc.StatusCode.ALREADY_EXISTS, code="RELATION_EXISTS", message=message)
        if not exists or request.or_replace:
            self.relations[request.relation.name] = request.relation
        return catalog_pb2.CreateRelationResponse(relation=request.relation, created=not exists)

    def DropRelation(self, request: catalog_pb2.DropRelationRequest, context: Any) -> catalog_pb2.DropRelationResponse:
        if request.if_exists and request.name not in self.relations:
            return catalog_pb2.DropRelationResponse(dropped=False)
        del self.relations[self._relation(request.name, context).name]
        return catalog_pb2.DropRelationResponse(dropped=True)

    def AlterBinding(self, request: catalog_pb2.AlterBindingRequest, context: Any) -> catalog_pb2.AlterBindingResponse:
        relation = self._relation(request.name, context)
        for binding in relation.bindings:
            if request.site in ("", binding.site):
                binding.options.update(request.options)
        return catalog_pb2.AlterBindingResponse(relation=relation)

    def ListFunctions(
        self, request: catalog_pb2.ListFunctionsRequest, context: Any
    ) -> catalog_pb2.ListFunctionsResponse:
        return catalog_pb2.ListFunctionsResponse(functions=self.functions.values())

    def GetFunction(self, request: catalog_pb2.GetFunctionRequest, context: Any) -> catalog_pb2.GetFunctionResponse:
        return catalog_pb2.GetFunctionResponse(function=self._function(request.name, context))

    def CreateFunction(
        self, request: catalog_pb2.CreateFunctionRequest, context: Any
    ) -> catalog_pb2.CreateFunctionResponse:
        made = request.function
        if made.name in self.functions and not request.or_replace:
            message = f"function {made.name} exists"
            self._abort(context, grpc.StatusCode.ALREADY_EXISTS, code="FUNCTION_EXISTS", message=message)
        made.digest, made.created_at_us = "0123456789abcdef", T0_US
        self.functions[made.name] = made
        return catalog_pb2.CreateFunctionResponse(function=made, created=True)

    def DropFunction(self, request: catalog_pb2.DropFunctionRequest, context: Any) -> catalog_pb2.DropFunctionResponse:
        if request.if_exists and request.name not in self.functions:
            return catalog_pb2.DropFunctionResponse(dropped=False)
        del self.functions[self._function(request.name, context).name]
        return catalog_pb2.DropFunctionResponse(dropped=True)

    def _function(self, name: str, context: Any) -> common_pb2.Function:
        if name not in self.functions:
            message = f"no function {name}"
            self._abort(context, grpc.StatusCode.NOT_FOUND, code="UNKNOWN_FUNCTION", message=message)
        return self.functions[name]

    # SiteService

    def ListSites(self, request: site_pb2.ListSitesRequest, context: Any) -> site_pb2.ListSitesResponse:
        return site_pb2.ListSitesResponse(sites=self.sites)

    def GetSite(self, request: site_pb2.GetSiteRequest, context: Any) -> site_pb2.GetSiteResponse:
        site = self._site(request.name, context)
        self.looks_with_a_merge = max(0, self.looks_with_a_merge - 1)
        if not self.looks_with_a_merge and len(site.work) > 1:
            del site.work[1:]
        if self.undrained_meanwhile:
            site.ClearField("draining_since_us")
        return site_pb2.GetSiteResponse(site=site)

    def DrainSite(self, request: site_pb2.DrainSiteRequest, context: Any) -> site_pb2.DrainSiteResponse:
        site = self._site(request.name, context)
        site.draining_since_us = T0_US
        _work(site, "source", movable=False, subject="clicks", reason="clicks is bound here")
        if self.looks_with_a_merge:
            _work(site, "merge", movable=True, reason="it ends with the queries that need it")
        return site_pb2.DrainSiteResponse(site=site)

    def UndrainSite(self, request: site_pb2.UndrainSiteRequest, context: Any) -> site_pb2.UndrainSiteResponse:
        site = self._site(request.name, context)
        site.ClearField("draining_since_us")
        site.ClearField("work")
        return site_pb2.UndrainSiteResponse(site=site)

    def DescribeMembers(self, request: Any, context: Any) -> site_pb2.DescribeMembersResponse:
        return self.members

    # The part of SiteService that agents use.

    def Register(self, request: site_pb2.RegisterRequest, context: Any) -> site_pb2.RegisterResponse:
        return self._abort(context, grpc.StatusCode.UNIMPLEMENTED, message="this master has no agents")

    def Deregister(self, request: site_pb2.DeregisterRequest, context: Any) -> site_pb2.DeregisterResponse:
        return self._abort(context, grpc.StatusCode.UNIMPLEMENTED, message="this master has no agents")

    def Report(self, request: site_pb2.ReportRequest, context: Any) -> site_pb2.ReportResponse:
        return self._abort(context, grpc.StatusCode.UNIMPLEMENTED, message="this master has no agents")

    def WatchAssignment(
        self, request: site_pb2.WatchAssignmentRequest, context: Any
    ) -> Iterator[site_pb2.WatchAssignmentResponse]:
        return self._abort(context, grpc.StatusCode.UNIMPLEMENTED, message="this master has no agents")

    def _site(self, name: str, context: Any) -> site_pb2.Site:
        found = next((s for s in self.sites if s.name == name), None)
        if found is None:
            return self._abort(context, grpc.StatusCode.NOT_FOUND, code="UNKNOWN_SITE", message=f"no site {name}")
        return found

    def _find(self, name: str, context: Any) -> FakeQuery:
        for query in self.queries.values():
            if query.message.id.startswith(name) or query.message.name == name:
                return query
        return self._abort(
            context,
            grpc.StatusCode.NOT_FOUND,
            code="UNKNOWN_QUERY",
            message=f"no query is named {name}",
            ids={"query": name},
        )

    def _relation(self, name: str, context: Any) -> common_pb2.Relation:
        if name not in self.relations:
            self._abort(context, grpc.StatusCode.NOT_FOUND, code="UNKNOWN_RELATION", message=f"no relation {name}")
        return self.relations[name]

    def _plan(self) -> query_pb2.Explanation:
        return query_pb2.Explanation(text=PLAN, json='{\n  "stages": [\n    "s1"\n  ]\n}')

    def _abort(self, context: Any, status: grpc.StatusCode, **detail: Any) -> NoReturn:
        message = common_pb2.ErrorDetail(**detail)
        context.set_trailing_metadata((("selat-error-bin", message.SerializeToString()),))
        context.abort(status, message.message)
        raise AssertionError("abort raises")


def wait_until(condition: Any, *, within_s: float = 60.0) -> None:
    """Returns as soon as the condition holds; fails the test when it does not hold in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def clicks_relation() -> common_pb2.Relation:
    return common_pb2.Relation(
        name="clicks",
        kind=common_pb2.RELATION_KIND_STREAM,
        columns=[
            common_pb2.Column(name="user_id", type="BIGINT"),
            common_pb2.Column(name="page", type="STRING"),
            common_pb2.Column(name="ts", type="TIMESTAMP"),
        ],
        event_time="ts",
        watermark_delay_us=5_000_000,
        bindings=[
            common_pb2.Binding(site="us", options={"connector": "generator", "rows_per_second": "100"}, has_log=False),
            common_pb2.Binding(site="eu", options={"connector": "files", "path": "/data/eu"}, has_log=False),
        ],
        comment="page visits",
        created_at_us=T0_US,
    )


def pages_relation() -> common_pb2.Relation:
    return common_pb2.Relation(
        name="pages",
        kind=common_pb2.RELATION_KIND_TABLE,
        columns=[common_pb2.Column(name="page", type="STRING"), common_pb2.Column(name="topic", type="STRING")],
        bindings=[
            common_pb2.Binding(site="us", options={"connector": "files", "path": "/data/pages.csv"}, has_log=False)
        ],
        created_at_us=T0_US,
    )


def daily_relation() -> common_pb2.Relation:
    return common_pb2.Relation(
        name="daily",
        kind=common_pb2.RELATION_KIND_SINK,
        bindings=[common_pb2.Binding(site="eu", options={"connector": "parquet", "path": "/data/out"}, has_log=False)],
        created_at_us=T0_US,
    )


def front_relation() -> common_pb2.Relation:
    return common_pb2.Relation(
        name="front",
        kind=common_pb2.RELATION_KIND_VIEW,
        columns=[common_pb2.Column(name="user_id", type="BIGINT"), common_pb2.Column(name="ts", type="TIMESTAMP")],
        definition="SELECT user_id, ts FROM clicks WHERE page = '/'",
        created_at_us=T0_US,
    )


def _task(query_id: str) -> site_pb2.TaskStatus:
    return site_pb2.TaskStatus(
        task_id=f"{query_id}.s1.p1",
        query_id=query_id,
        stage_id="s1",
        site="us",
        state=site_pb2.TASK_STATE_RUNNING,
        epochs=3,
        rows_in=10,
        rows_out=3,
        rows_in_per_s=12.5,
        busy_ratio=0.25,
        lag_rows=1200,
        state_bytes=2048,
        watermark_us=T0_US + 5_000_000,
    )


def _work(site: site_pb2.Site, kind: str, *, movable: bool, subject: str = "", reason: str) -> None:
    query = "q-0001-abcdef"
    site.work.add(
        kind=kind, query_id=query, task_id=f"{query}.{kind}.us", subject=subject, movable=movable, reason=reason
    )


def _over(message: query_pb2.Query) -> bool:
    return message.state in (
        query_pb2.QUERY_STATE_CANCELLED,
        query_pb2.QUERY_STATE_FINISHED,
        query_pb2.QUERY_STATE_FAILED,
    )


def zone_function() -> common_pb2.Function:
    return common_pb2.Function(
        name="zone",
        parameters=[common_pb2.Column(name="page", type="STRING"), common_pb2.Column(name="depth", type="INT")],
        returns="STRING",
        entry="zone",
        file="geo.py",
        source="def zone(page: str, depth: int) -> str:\n    return page[:depth]\n",
        digest="0123456789abcdef",
        created_at_us=T0_US,
    )
