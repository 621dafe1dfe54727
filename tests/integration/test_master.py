"""The master from submission to end, with stand-ins for the agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import selat
from contract.tasks import TaskState
from master.config.values import REQUEST_LIMIT_BYTES, STATEMENT_LIMIT_BYTES
from master.records.model import ChannelUse, ResultStatus, TaskStatus
from master.server import SERVICES
from planner.graph.ids import TaskId
from selat.v1 import (
    catalog_pb2,
    common_pb2,
    query_pb2,
    site_pb2,
)
from tests.fakes.agent import FakeAgent
from tests.integration.master_cluster import (
    CONFIG,
    COUNT,
    CREATE,
    FILTER,
    NAMES,
    Cluster,
    analyze,
    eventually,
    refusal,
    running_cluster,
)

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        yield cluster


async def test_watching_tells_every_change_of_state(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.submit()
    request = query_pb2.WatchQueryRequest(query=query, interval_ms=60_000)
    states: list[int] = []
    watching = aiter(cluster.queries.WatchQuery(request))
    states.append((await anext(watching)).query.state)
    for site in ("us", "eu"):
        await cluster.agents[site].assigned(lambda a: bool(a.tasks))
        await cluster.report(site, TaskState.RUNNING)
    states.append((await anext(watching)).query.state)
    failed = TaskStatus(TaskId(query, "s1", 1), query, "s1", "us", TaskState.FAILED, reason="disk full")
    await cluster.agents["us"].report(failed)
    last = [m async for m in watching]
    states.extend(m.query.state for m in last)
    assert states == [
        query_pb2.QUERY_STATE_DEPLOYING,
        query_pb2.QUERY_STATE_RUNNING,
        query_pb2.QUERY_STATE_FAILED,
    ]
    assert last[-1].query.reason == f"task {query}.s1.p1 failed: disk full"
    await cluster.agents["eu"].assigned(lambda a: not a.tasks)


async def test_watching_tells_progress_at_intervals(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.run()
    watching = cluster.queries.WatchQuery(query_pb2.WatchQueryRequest(query=query, interval_ms=10))
    responses = aiter(watching)
    await anext(responses)
    await cluster.report("us", TaskState.RUNNING, rows_in=77)
    async with asyncio.timeout(10):
        while (await anext(responses)).query.rows_in != 77:
            pass
    watching.cancel()


async def test_a_master_that_restarts_takes_up_where_it_was(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.run()
    us = f"{query}.s1.p1"
    use = ChannelUse(TaskId.parse(us), query, "us", 1000, 1)
    await cluster.report("us", TaskState.RUNNING, rows_in=40)
    await cluster.agents["hub"].report(channels=(use,), results=(ResultStatus(query, rows=2),))
    before = {site: cluster.agents[site].assignments[-1] for site in NAMES}
    await cluster.stop_master()
    await cluster.start_master()

    found = await cluster.get(query)
    assert (found.state, found.rows_in, found.rows_out) == (query_pb2.QUERY_STATE_RUNNING, 40, 2)
    # Agents go on reporting without registering again; the assignment and its version are the same.
    await cluster.report("us", TaskState.RUNNING, rows_in=50)
    await cluster.agents["hub"].report(channels=(ChannelUse(TaskId.parse(us), query, "us", 1500, 2),))
    found = await cluster.get(query)
    assert (found.rows_in, found.links[0].bytes) == (50, 1500)
    for site in NAMES:
        await cluster.agents[site].register()

        async def seen(site: str = site) -> bool:
            return cluster.agents[site].assignments[-1] is not before[site]

        await eventually(seen)
        assert cluster.agents[site].assignments[-1] == before[site]

    for site in ("us", "eu"):
        await cluster.report(site, TaskState.ENDED, rows_in=60)
    await cluster.agents["hub"].report(results=(ResultStatus(query, rows=3, complete=True),))
    assert await cluster.state(query) == "FINISHED"
    assert (await cluster.submit()).startswith("q-0002-")


async def test_a_lost_heartbeat_and_its_return(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.run()
    cluster.clock.advance(CONFIG.heartbeat_timeout)
    for site in ("us", "hub"):
        await cluster.report(site, TaskState.RUNNING)

    async def lost() -> bool:
        return await cluster.site_state("eu") == "UNREACHABLE"

    await eventually(lost)
    found = await cluster.get(query)
    assert (found.state, found.reason) == (query_pb2.QUERY_STATE_RUNNING, "site eu is unreachable")
    assert len(cluster.agents["us"].assignments[-1].tasks) == 1
    code, said = await refusal(cluster.execute(FILTER))
    assert (code, said.code, said.ids["site"]) == (grpc.StatusCode.FAILED_PRECONDITION, "NO_PLACEMENT", "eu")
    await cluster.report("eu", TaskState.RUNNING)
    assert await cluster.site_state("eu") == "ALIVE"
    assert (await cluster.get(query)).reason == ""


async def test_a_newer_agent_displaces_the_older(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.run()
    old = cluster.agents["us"]
    new = await cluster.agent("us", "b")
    assert (await old.displaced()).code() is grpc.StatusCode.ABORTED
    code, said = await refusal(old.report())
    assert (code, said.code) == (grpc.StatusCode.ABORTED, "SITE_DISPLACED")
    code, said = await refusal(old.register())
    assert (code, said.code) == (grpc.StatusCode.ABORTED, "SITE_DISPLACED")
    assignment = await new.assigned(lambda a: bool(a.tasks))
    assert assignment.tasks[0].query_id == query
    assert assignment.site_addresses["us"] == new.address
    await cluster.report("us", TaskState.RUNNING)


async def test_an_agent_of_an_unknown_site_is_refused(cluster: Cluster) -> None:
    agent = FakeAgent("mars", cluster.address, analyze=analyze)
    code, said = await refusal(agent.start())
    await agent.stop()
    assert (code, said.code) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_SITE")
    assert said.hint == "sites of the topology: eu, hub, us"


async def test_an_error_in_mid_script_ends_it_with_its_place(cluster: Cluster) -> None:
    text = CREATE + "\nSHOW STREAMS;\nDROP TABLE nope;\nDROP STREAM clicks;"
    answers: list[query_pb2.ExecuteResponse] = []

    async def run() -> None:
        async for answer in cluster.queries.Execute(query_pb2.ExecuteRequest(text=text)):
            answers.append(answer)  # noqa: PERF401 - kept when the call fails

    code, said = await refusal(run())
    assert (code, said.code) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_RELATION")
    assert (said.line, said.column, said.found) == (4, 1, "nope")
    assert [(a.line, a.WhichOneof("outcome")) for a in answers] == [(1, "done"), (3, "rows")]
    assert answers[1].rows.rows[0].values[0] == "clicks"
    listed = await cluster.catalog.ListRelations(catalog_pb2.ListRelationsRequest())
    assert [r.name for r in listed.relations] == ["clicks"]


async def test_a_syntax_error_anywhere_does_nothing_at_all(cluster: Cluster) -> None:
    code, said = await refusal(cluster.execute(CREATE + "\nSELECT FROM WHERE;"))
    assert (code, said.code) == (grpc.StatusCode.INVALID_ARGUMENT, "SYNTAX_ERROR")
    assert said.line == 3
    assert (await cluster.catalog.ListRelations(catalog_pb2.ListRelationsRequest())).relations == []


async def test_what_spark_refuses_is_refused_at_its_place_and_nothing_is_stored(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    code, said = await refusal(cluster.execute("SHOW SITES;\n  SELECT user_id,\n upper('nope') AS x FROM clicks"))
    assert (code, said.code) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_EXPRESSION")
    assert (said.line, said.column, said.found) == (3, 9, "nope")
    assert (await cluster.queries.ListQueries(query_pb2.ListQueriesRequest(all=True))).queries == []


async def test_without_any_site_nothing_can_be_checked(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        cluster = Cluster(tmp_path, stack)
        await cluster.start_master()
        stack.push_async_callback(cluster.stop_master)
        await cluster.connect()
        await cluster.execute(CREATE)
        code, said = await refusal(cluster.execute(FILTER))
        assert (code, said.code) == (grpc.StatusCode.UNAVAILABLE, "NO_SITE_AVAILABLE")
        assert said.message == "no site is connected to check the query"


async def test_checking_goes_on_at_another_site_when_the_gateway_is_gone(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    await cluster.agents["hub"].stop_serving()
    assert (await cluster.submit()).startswith("q-0001-")


async def test_explain_stores_nothing_and_a_submitted_query_can_be_explained(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    (answer,) = await cluster.execute("EXPLAIN " + COUNT)
    assert "merge" in answer.explanation.text
    assert '"result_stage"' in answer.explanation.json or answer.explanation.json.startswith("{")
    assert (await cluster.queries.ListQueries(query_pb2.ListQueriesRequest(all=True))).queries == []
    query = await cluster.submit(COUNT)
    stored = await cluster.queries.ExplainQuery(query_pb2.ExplainQueryRequest(query=query))
    assert stored.explanation == answer.explanation


async def test_a_merge_is_given_its_inputs(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.submit(COUNT)
    (agent,) = [
        a for a in cluster.agents.values() if any(t.kind == site_pb2.STAGE_KIND_MERGE for t in a.assignments[-1].tasks)
    ] or [await _merging(cluster)]
    merge = next(t for t in agent.assignments[-1].tasks if t.kind == site_pb2.STAGE_KIND_MERGE)
    assert [(i.channel, i.site, i.view) for i in merge.inputs] == [
        (f"{query}.s1.p0", "eu", "input"),
        (f"{query}.s1.p1", "us", "input"),
    ]
    assert (merge.merge.window_column, merge.merge.window_us) == ("_window_start", 10_000_000)
    assert merge.merge.combine_sql


async def _merging(cluster: Cluster) -> FakeAgent:
    def merges(assignment: site_pb2.Assignment) -> bool:
        return any(t.kind == site_pb2.STAGE_KIND_MERGE for t in assignment.tasks)

    async def found() -> bool:
        return any(a.assignments and merges(a.assignments[-1]) for a in cluster.agents.values())

    await eventually(found)
    return next(a for a in cluster.agents.values() if merges(a.assignments[-1]))


@pytest.mark.parametrize(
    ("text", "code", "name"),
    [
        (CREATE, grpc.StatusCode.ALREADY_EXISTS, "RELATION_EXISTS"),
        (CREATE.replace("clicks", "c2").replace("AT eu", "AT mars"), grpc.StatusCode.NOT_FOUND, "UNKNOWN_SITE"),
        ("CREATE TABLE t (a INT) AT us WITH ('path' = '/x')", grpc.StatusCode.INVALID_ARGUMENT, "INVALID_DEFINITION"),
        ("DROP STREAM clicks", grpc.StatusCode.FAILED_PRECONDITION, "RELATION_IN_USE"),
        ("ALTER STREAM clicks AT hub SET ('a' = 'b')", grpc.StatusCode.NOT_FOUND, "UNKNOWN_SITE"),
        ("DESCRIBE cliks", grpc.StatusCode.NOT_FOUND, "UNKNOWN_RELATION"),
        ("CANCEL QUERY q-0009", grpc.StatusCode.NOT_FOUND, "UNKNOWN_QUERY"),
        (" -- nothing", grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"),
    ],
)
async def test_refused_statements(cluster: Cluster, text: str, code: grpc.StatusCode, name: str) -> None:
    await cluster.execute(CREATE)
    await cluster.submit()
    found, said = await refusal(cluster.execute(text))
    assert (found, said.code) == (code, name)
    assert said.message
    assert said.hint


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("ALTER STREAM clicks\n AT us SET ('rows_per_second' = 'many')", (2, 33), "'many'"),
        ("ALTER STREAM clicks SET ('rows_per_secnd' = '1')", (1, 26), "'rows_per_secnd'"),
        ("ALTER STREAM clicks SET ('connector' = 'push')", (1, 40), "'push'"),
        (CREATE.replace("'rows_per_second' = '100'", "'seed' = 'x'"), (2, 43), "'x'"),
    ],
)
async def test_a_wrong_option_is_refused_at_its_place(
    cluster: Cluster, text: str, place: tuple[int, int], found: str
) -> None:
    if not text.startswith("CREATE"):
        await cluster.execute(CREATE)
    _, said = await refusal(cluster.execute(text))
    assert (said.code, (said.line, said.column), said.found) == ("INVALID_DEFINITION", place, found)
    assert said.hint


async def test_listings(cluster: Cluster) -> None:
    await cluster.execute(
        CREATE + "CREATE TABLE pages (page STRING) AT us WITH ('connector' = 'files', 'path' = '/p', 'format' = 'csv');"
    )
    query = await cluster.submit(name="big")
    script = "SHOW STREAMS; SHOW TABLES; SHOW QUERIES; SHOW SITES; DESCRIBE clicks"
    streams, tables, queries, sites, described = [a.rows for a in await cluster.execute(script)]
    assert list(streams.rows[0].values)[:2] == ["clicks", "us, eu"]
    assert list(tables.rows[0].values)[:3] == ["pages", "us", "page STRING"]
    assert list(queries.rows[0].values)[:3] == [query, "big", "DEPLOYING"]
    assert [list(r.values)[:2] for r in sites.rows] == [["eu", "ALIVE"], ["hub", "ALIVE"], ["us", "ALIVE"]]
    assert ["column", "user_id", "BIGINT"] in [list(r.values) for r in described.rows]
    assert ["watermark", "ts", "5 s behind"] in [list(r.values) for r in described.rows]


async def test_a_stream_by_arrival_is_described_with_its_time(cluster: Cluster) -> None:
    await cluster.execute(
        "CREATE STREAM hits (page STRING, WATERMARK FOR arrived) WITH ('connector' = 'push') AT us, AT eu"
    )
    (described,) = [a.rows for a in await cluster.execute("DESCRIBE hits")]
    assert [list(r.values) for r in described.rows][:3] == [
        ["column", "page", "STRING"],
        ["column", "arrived", "TIMESTAMP"],
        ["watermark", "arrived", "the site's clock"],
    ]
    found = (await cluster.catalog.GetRelation(catalog_pb2.GetRelationRequest(name="hits"))).relation
    assert ([column.name for column in found.columns], found.event_time) == (["page"], "arrived")
    found.name = "hits_again"
    created = await cluster.catalog.CreateRelation(catalog_pb2.CreateRelationRequest(relation=found))
    assert (created.relation.event_time, len(created.relation.columns)) == ("arrived", 1)


async def test_the_catalog_service(cluster: Cluster) -> None:
    relation = common_pb2.Relation(
        name="t",
        kind=common_pb2.RELATION_KIND_TABLE,
        columns=[common_pb2.Column(name="a", type="integer")],
        bindings=[common_pb2.Binding(site="us", options={"connector": "files", "path": "/t", "format": "json"})],
    )
    request = catalog_pb2.CreateRelationRequest(relation=relation)
    created = await cluster.catalog.CreateRelation(request)
    assert created.created
    assert created.relation.columns[0].type == "INT"
    code, said = await refusal(cluster.catalog.CreateRelation(request))
    assert (code, said.code, said.line) == (grpc.StatusCode.ALREADY_EXISTS, "RELATION_EXISTS", 0)
    altered = await cluster.catalog.AlterBinding(catalog_pb2.AlterBindingRequest(name="t", options={"format": "csv"}))
    assert altered.relation.bindings[0].options["format"] == "csv"
    found = await cluster.catalog.GetRelation(catalog_pb2.GetRelationRequest(name="T"))
    assert found.relation == altered.relation
    dropped = await cluster.catalog.DropRelation(catalog_pb2.DropRelationRequest(name="t"))
    assert dropped.dropped
    again = await cluster.catalog.DropRelation(catalog_pb2.DropRelationRequest(name="t", if_exists=True))
    assert not again.dropped


async def test_views_by_sql_and_by_the_catalog_service(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    script = (
        "CREATE VIEW big (who, what) COMMENT 'x' AS SELECT user_id, page FROM clicks WHERE user_id > 5;"
        "CREATE VIEW IF NOT EXISTS big AS SELECT page FROM clicks; SHOW VIEWS; DESCRIBE VIEW big"
    )
    created, left, listed, described = await cluster.execute(script)
    assert (created.done, left.done) == ("view big created", "view big exists already")
    definition = "SELECT user_id, page FROM clicks WHERE user_id > 5"
    assert [list(r.values) for r in listed.rows.rows] == [["big", "who BIGINT, what STRING", definition, "x"]]
    assert ["definition", "", definition] in [list(r.values) for r in described.rows.rows]
    view = common_pb2.Relation(
        name="all", kind=common_pb2.RELATION_KIND_VIEW, definition="SELECT what AS page FROM big"
    )
    answer = await cluster.catalog.CreateRelation(catalog_pb2.CreateRelationRequest(relation=view, or_replace=True))
    assert (answer.created, answer.relation.columns[0].type) == (True, "STRING")
    code, said = await refusal(cluster.catalog.DropRelation(catalog_pb2.DropRelationRequest(name="big")))
    assert (code, said.code, said.ids["view"]) == (grpc.StatusCode.FAILED_PRECONDITION, "RELATION_IN_USE", "all")
    await cluster.execute("SELECT page FROM all; DROP VIEW all; DROP VIEW big")


async def test_altered_rates_reach_the_running_task(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    await cluster.run()
    await cluster.execute("ALTER STREAM clicks AT us SET ('rows_per_second' = '500')")

    def changed(assignment: site_pb2.Assignment) -> bool:
        return assignment.tasks[0].relation.bindings[0].options["rows_per_second"] == "500"

    assignment = await cluster.agents["us"].assigned(changed)
    assert "rate_schedule" in assignment.tasks[0].relation.bindings[0].options


async def test_names(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    await cluster.submit(name="top")
    for text, name, status, expected in (
        (FILTER, "top", grpc.StatusCode.ALREADY_EXISTS, "QUERY_NAME_TAKEN"),
        (FILTER, "q-1", grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"),
        (f"{FILTER};{FILTER}", "two", grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"),
    ):
        code, said = await refusal(cluster.execute(text, name))
        assert (code, said.code) == (status, expected)
    assert len((await cluster.queries.ListQueries(query_pb2.ListQueriesRequest())).queries) == 1


async def test_limits(cluster: Cluster) -> None:
    code, said = await refusal(cluster.execute("-" * (STATEMENT_LIMIT_BYTES + 1)))
    assert (code, said.code) == (grpc.StatusCode.INVALID_ARGUMENT, "STATEMENT_TOO_LONG")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await cluster.execute("-" * (REQUEST_LIMIT_BYTES + 1))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_defect_is_an_id_and_no_traceback(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    await cluster.execute(CREATE)

    def broken(name: str, kind: object = None) -> None:
        raise ZeroDivisionError("secret inside")

    cluster.master.catalog.get = broken  # type: ignore[method-assign, assignment]
    code, said = await refusal(cluster.catalog.GetRelation(catalog_pb2.GetRelationRequest(name="clicks")))
    assert (code, said.code) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret" not in said.message
    assert said.ids["error"] in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_health(cluster: Cluster) -> None:
    stub = health_pb2_grpc.HealthStub(cluster.channel)
    for service in ("", *SERVICES):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_sites_are_shown_with_their_links(cluster: Cluster) -> None:
    await cluster.agents["hub"].report(memory_bytes=5)
    sites = {s.name: s for s in (await cluster.sites.ListSites(site_pb2.ListSitesRequest())).sites}
    assert sorted(sites) == ["eu", "hub", "us"]
    assert (sites["hub"].gateway, sites["us"].gateway, sites["hub"].memory_bytes) == (True, False, 5)
    assert [(x.to_site, x.bandwidth_bytes_per_s, x.latency_s) for x in sites["us"].outgoing] == [
        ("eu", 2_500_000.0, 0.04),
        ("hub", 2_500_000.0, 0.04),
    ]
    code, said = await refusal(cluster.sites.GetSite(site_pb2.GetSiteRequest(name="uss")))
    assert (code, said.hint) == (grpc.StatusCode.NOT_FOUND, "did you mean us?")


async def test_a_draining_site_takes_no_query_over_grpc_and_after_a_restart(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    query = await cluster.run(COUNT)
    drained = (await cluster.sites.DrainSite(site_pb2.DrainSiteRequest(name="eu"))).site
    assert drained.HasField("draining_since_us")
    work = {(w.kind, w.query_id, w.movable) for w in drained.work}
    assert ("source", query, False) in work
    for _ in range(2):
        code, detail = await refusal(cluster.execute(COUNT))
        assert (code, detail.code, detail.ids["site"]) == (grpc.StatusCode.FAILED_PRECONDITION, "NO_PLACEMENT", "eu")
        assert detail.hint == "End that with: selat site undrain eu."
        assert await cluster.state(query) == "RUNNING"
        await cluster.stop_master()
        await cluster.start_master()
    await cluster.sites.UndrainSite(site_pb2.UndrainSiteRequest(name="eu"), wait_for_ready=True)
    assert await cluster.submit(COUNT)
    code, detail = await refusal(cluster.sites.DrainSite(site_pb2.DrainSiteRequest(name="mars")))
    assert (code, detail.code) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_SITE")


async def test_every_member_is_asked_and_one_that_does_not_answer_says_why(cluster: Cluster) -> None:
    await cluster.agents["eu"].stop()
    found = await cluster.sites.DescribeMembers(site_pb2.DescribeMembersRequest())
    assert found.master.version == selat.__version__
    assert found.master.packages["grpcio"]
    by_site = {site.site: site for site in found.sites}
    assert set(by_site) == set(NAMES)
    assert by_site["us"].member.python == found.master.python
    assert abs(by_site["us"].clock_ahead_s) >= 0
    assert not by_site["eu"].HasField("member")
    assert by_site["eu"].reason.startswith("UNAVAILABLE")
