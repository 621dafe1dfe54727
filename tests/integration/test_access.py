"""A master that checks who calls, over real gRPC: tokens, rights, owners, limits, grants, the audit log."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc.aio
import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc

import selat
from contract.tasks import TaskState
from machine.bearer import Metadata, metadata_of
from planner.access.limits import Limits
from planner.access.methods import METHODS
from selat.cli import cli
from selat.v1 import access_pb2, access_pb2_grpc, lease_pb2, query_pb2, site_pb2, site_pb2_grpc
from tests.integration.checked_master import LIMITS, ROLES, Checked
from tests.integration.master_cluster import CREATE, FILTER, NAMES, Cluster, detail, refusal

pytestmark = pytest.mark.timeout(120)

CREATE_PAGES = (
    "CREATE STREAM pages (topic STRING, ts TIMESTAMP, WATERMARK FOR ts) "
    "AT us WITH ('connector' = 'generator', 'rows_per_second' = '1')"
)
PAGES = "SELECT topic FROM pages"


@pytest.fixture
async def checked(tmp_path: Path) -> AsyncIterator[Checked]:
    async with AsyncExitStack() as stack:
        checked = Checked(tmp_path, stack)
        await checked.start()
        stack.push_async_callback(checked.cluster.stop_master)
        yield checked


LOOKERS = "reader submitter operator functions admin nightly"
SUBMITTERS = "submitter operator admin"
OPERATORS = "operator admin"
FUNCTION_MAKERS = "functions admin"
LEASERS = "operator admin nightly"
EVERYBODY = "reader submitter operator functions admin sites nightly"

ALLOWED = {
    "QueryService/Execute": EVERYBODY,
    "QueryService/ListQueries": LOOKERS,
    "QueryService/GetQuery": LOOKERS,
    "QueryService/ExplainQuery": LOOKERS,
    "QueryService/ListSharing": LOOKERS,
    "QueryService/WatchQuery": LOOKERS,
    "QueryService/CancelQuery": SUBMITTERS,
    "QueryService/PauseQuery": SUBMITTERS,
    "QueryService/ResumeQuery": SUBMITTERS,
    "QueryService/FetchResults": SUBMITTERS,
    "CatalogService/ListRelations": LOOKERS,
    "CatalogService/GetRelation": LOOKERS,
    "CatalogService/CreateRelation": SUBMITTERS,
    "CatalogService/DropRelation": SUBMITTERS,
    "CatalogService/AlterBinding": OPERATORS,
    "CatalogService/ListFunctions": LOOKERS,
    "CatalogService/GetFunction": LOOKERS,
    "CatalogService/CreateFunction": FUNCTION_MAKERS,
    "CatalogService/DropFunction": FUNCTION_MAKERS,
    "SiteService/Register": "sites",
    "SiteService/Deregister": "sites",
    "SiteService/Report": "sites",
    "SiteService/WatchAssignment": "sites",
    "SiteService/ListSites": LOOKERS,
    "SiteService/GetSite": LOOKERS,
    "SiteService/DrainSite": OPERATORS,
    "SiteService/UndrainSite": OPERATORS,
    "SiteService/DescribeMembers": OPERATORS,
    "MemberService/DescribeMember": OPERATORS,
    "WanService/ListLinks": LOOKERS,
    "WanService/GetLinkHistory": LOOKERS,
    "WanService/ProbeLink": OPERATORS,
    "LeaseService/Watch": EVERYBODY,
    "LeaseService/Acquire": LEASERS,
    "LeaseService/Renew": LEASERS,
    "LeaseService/Release": LEASERS,
    "LeaseService/WaitFor": LEASERS,
    "LeaseService/RegisterFramework": LEASERS,
    "LeaseService/ListFrameworks": LOOKERS,
    "LeaseService/SetQuota": OPERATORS,
    "AdaptationService/ListDecisions": LOOKERS,
    "HandoverService/MoveTask": SUBMITTERS,
    "HandoverService/ScaleStage": SUBMITTERS,
    "HandoverService/CombineQuery": SUBMITTERS,
    "HandoverService/CallOffMove": SUBMITTERS,
    "HandoverService/ListMoves": LOOKERS,
    "AdaptationService/GetQueryHistory": LOOKERS,
    "EventService/ListEvents": LOOKERS,
    "EventService/WatchEvents": LOOKERS,
    "AccessService/CreateToken": "admin",
    "AccessService/ListTokens": "admin",
    "AccessService/RevokeToken": "admin",
    "AccessService/GetCaller": EVERYBODY,
}
"""Who may call what; the members speak for themselves."""

NAMED = {"site": "us", "framework": "nightly", "name": "nightly"}


def test_the_table_has_every_method() -> None:
    own = {name.removeprefix("/selat.v1.") for name in METHODS if name.startswith("/selat.v1.")}
    assert set(ALLOWED) == own


def empty_request(method: str) -> bytes:
    """A request that says no more than in whose name it is."""
    service, _, name = method.partition("/")
    found = descriptor_pool.Default().FindServiceByName(f"selat.v1.{service}").methods_by_name[name]
    request = message_factory.GetMessageClass(found.input_type)()
    rule = METHODS[f"/selat.v1.{method}"]
    if bound := rule.bound or rule.site:
        setattr(request, bound, NAMED[bound])
    return request.SerializeToString()


async def code_of(channel: grpc.aio.Channel, method: str, data: bytes, metadata: Metadata) -> str:
    """OK, or the code of the error that the call ends with; streams are left after their first message."""
    service, _, name = method.partition("/")
    found = descriptor_pool.Default().FindServiceByName(f"selat.v1.{service}").methods_by_name[name]
    try:
        if found.server_streaming:
            call = channel.unary_stream(f"/selat.v1.{method}", None, None)(data, metadata=metadata)
            await anext(aiter(call), None)
            call.cancel()
        else:
            await channel.unary_unary(f"/selat.v1.{method}", None, None)(data, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return detail(error).code
    return "OK"


@pytest.mark.parametrize("name", [*ROLES, "sites", "nightly"])
async def test_every_role_may_call_what_the_table_says(checked: Checked, name: str) -> None:
    # Whoever watches events is told of this one at once.
    drained = site_pb2.DrainSiteRequest(name="us")
    await site_pb2_grpc.SiteServiceStub(checked.cluster.channel).DrainSite(drained, metadata=checked.shown("admin"))
    refused = set()
    for method in ALLOWED:
        code = await code_of(checked.cluster.channel, method, empty_request(method), checked.shown(name))
        assert code != "UNAUTHENTICATED"
        if code == "PERMISSION_DENIED":
            refused.add(method)
    assert refused == {method for method, allowed in ALLOWED.items() if name not in allowed.split()}
    # None of its calls was lost: each that was refused is told.
    told = {r["method"] for r in checked.audited() if r["outcome"] == "PERMISSION_DENIED" and r["principal"] == name}
    assert told == refused


async def test_nobody_calls_anything_without_a_token(checked: Checked) -> None:
    for method in ALLOWED:
        for metadata in ((), metadata_of("garbage"), metadata_of("selat_" + "A" * 43)):
            assert await code_of(checked.cluster.channel, method, b"", metadata) == "UNAUTHENTICATED", method


async def test_health_is_told_to_everybody(checked: Checked) -> None:
    health = health_pb2_grpc.HealthStub(checked.cluster.channel)
    answer = await health.Check(health_pb2.HealthCheckRequest(service="selat.v1.SiteService"))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_members_speak_for_nobody_else(checked: Checked) -> None:
    await checked.create("eu-agent", "site", bound_to=("eu",))
    sites, leases = checked.cluster.sites, checked.cluster.leases
    register = site_pb2.RegisterRequest(site="us", address="127.0.0.1:1", incarnation="x", slots=1)
    code, said = await refusal(sites.Register(register, metadata=checked.shown("eu-agent")))
    assert (code, said.message) == (grpc.StatusCode.PERMISSION_DENIED, "eu-agent may not act for us")
    other = lease_pb2.RegisterFrameworkRequest(name="batch2")
    code, said = await refusal(leases.RegisterFramework(other, metadata=checked.shown("nightly")))
    assert (code, said.code) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
    own = lease_pb2.RegisterFrameworkRequest(name="nightly")
    await leases.RegisterFramework(own, metadata=checked.shown("nightly"))
    taken = lease_pb2.AcquireRequest(framework="batch2")
    code, _ = await refusal(leases.Acquire(taken, metadata=checked.shown("nightly")))
    assert code is grpc.StatusCode.PERMISSION_DENIED
    for site, expected in (("eu", "OK"), ("us", "PERMISSION_DENIED"), ("", "PERMISSION_DENIED")):
        watch = lease_pb2.WatchSlotsRequest(site=site).SerializeToString()
        found = await code_of(checked.cluster.channel, "LeaseService/Watch", watch, checked.shown("eu-agent"))
        assert found == expected, site


async def test_a_token_that_is_revoked_or_expires_is_of_no_more_use_nor_are_its_streams(checked: Checked) -> None:
    await checked.start_agents()
    await checked.execute("operator", CREATE)
    query = await checked.submit("operator")
    stolen = await checked.create("eve", "operator")
    await checked.create("short", "operator", lifetime_s=60)
    request = query_pb2.WatchQueryRequest(query=query, interval_ms=10)
    watching = [checked.cluster.queries.WatchQuery(request, metadata=checked.shown(n)) for n in ("eve", "short")]
    for call in watching:
        assert (await anext(aiter(call))).query.id == query
    await checked.access.RevokeToken(access_pb2.RevokeTokenRequest(token=stolen), metadata=checked.shown("admin"))
    checked.cluster.clock.advance(timedelta(seconds=60))
    for call, name in zip(watching, ("eve", "short"), strict=True):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in call:
                pass
        assert detail(caught.value).code == "UNAUTHENTICATED"
        assert await checked.refused(name, "SHOW QUERIES") == "UNAUTHENTICATED"


async def test_queries_are_their_owners(checked: Checked) -> None:
    await checked.start_agents()
    await checked.create("ann", "submitter")
    await checked.create("bob", "submitter")
    await checked.execute("operator", f"{CREATE} GRANT SELECT ON clicks TO submitter")
    query = await checked.submit("ann")
    assert [q.owner for q in await checked.listed("reader")] == ["ann"]
    queries, named = checked.cluster.queries, query_pb2.CancelQueryRequest(query=query)
    for call in (
        queries.CancelQuery(named, metadata=checked.shown("bob")),
        queries.PauseQuery(query_pb2.PauseQueryRequest(query=query), metadata=checked.shown("bob")),
        queries.ResumeQuery(query_pb2.ResumeQueryRequest(query=query), metadata=checked.shown("bob")),
    ):
        code, said = await refusal(call)
        assert (code, said.code) == (grpc.StatusCode.PERMISSION_DENIED, "NOT_OWNER")
        assert said.message == f"query {query} is ann's"
    fetch = query_pb2.FetchResultsRequest(query=query)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await anext(aiter(queries.FetchResults(fetch, metadata=checked.shown("bob"))))
    assert detail(caught.value).code == "NOT_OWNER"
    for statement in ("CANCEL", "PAUSE", "RESUME"):
        assert await checked.refused("bob", f"{statement} QUERY `{query}`") == "NOT_OWNER"
    assert await checked.refused("reader", f"CANCEL QUERY `{query}`") == "PERMISSION_DENIED"
    for site in NAMES:
        agent = checked.cluster.agents[site]
        await agent.assigned(lambda a: query in [t.query_id for t in a.tasks] + [r.query_id for r in a.results])
        await checked.cluster.report(site, TaskState.RUNNING)
    # An operator manages those of others, and the owner its own.
    await queries.PauseQuery(query_pb2.PauseQueryRequest(query=query), metadata=checked.shown("operator"))
    await checked.execute("ann", f"CANCEL QUERY `{query}`")


async def test_owners_and_grants_are_there_after_a_restart(checked: Checked) -> None:
    await checked.start_agents()
    await checked.execute("operator", f"{CREATE} GRANT SELECT ON clicks TO submitter")
    await checked.execute("submitter", "CREATE VIEW pages_seen AS SELECT page FROM clicks")
    query = await checked.submit("submitter")
    await checked.cluster.stop_master()
    await checked.start_again()
    assert [(q.id, q.owner) for q in await checked.listed("reader")] == [(query, "submitter")]
    assert await checked.refused("functions", "DROP VIEW pages_seen") == "PERMISSION_DENIED"
    await checked.execute("submitter", f"CANCEL QUERY `{query}`; DROP VIEW pages_seen")


async def test_what_is_not_granted_is_not_read(checked: Checked) -> None:
    await checked.start_agents()
    await checked.create("ann", "submitter", "analysts")
    await checked.create("bob", "submitter")
    await checked.execute("operator", f"{CREATE} {CREATE_PAGES}; GRANT SELECT ON pages TO analysts")
    # Directly, in a sub-query, in an entry of WITH that is not used, behind EXPLAIN, in a new view.
    for text in (
        FILTER,
        "SELECT page FROM (SELECT page FROM clicks) AS c",
        f"WITH c AS ({FILTER}) SELECT topic FROM pages",
        f"EXPLAIN {FILTER}",
        f"CREATE VIEW mine AS {FILTER}",
    ):
        assert await checked.refused("ann", text) == "NOT_GRANTED", text
    (row,) = (await checked.execute("ann", "SHOW GRANTS"))[0].rows.rows
    assert list(row.values)[:4] == ["pages", "SELECT", "analysts", "operator"]
    assert await checked.refused("bob", f"EXPLAIN {PAGES}") == "NOT_GRANTED"
    assert (await checked.execute("ann", f"EXPLAIN {PAGES}"))[0].explanation.text
    assert await checked.refused("ann", "GRANT SELECT ON pages TO submitter") == "NOT_OWNER"
    await checked.execute("operator", "REVOKE SELECT ON pages FROM analysts")
    assert await checked.refused("ann", f"EXPLAIN {PAGES}") == "NOT_GRANTED"
    assert await checked.refused("operator", "GRANT INSERT ON pages TO analysts") == "INVALID_REQUEST"
    assert await checked.refused("operator", "GRANT SELECT ON nowhere TO analysts") == "UNKNOWN_RELATION"


async def test_a_view_shows_what_its_owner_may_read_to_those_it_is_granted_to(checked: Checked) -> None:
    await checked.start_agents()
    await checked.create("ann", "submitter", "analysts")
    await checked.create("bob", "submitter", "press")
    await checked.execute("operator", f"{CREATE} {CREATE_PAGES}; GRANT SELECT ON pages TO press")
    await checked.execute("operator", "GRANT SELECT ON clicks TO analysts")
    await checked.execute("ann", "CREATE VIEW front AS SELECT user_id FROM clicks WHERE page = '/'")
    use = "EXPLAIN SELECT user_id FROM front"
    assert await checked.refused("bob", use) == "NOT_GRANTED"
    await checked.execute("ann", "GRANT SELECT ON front TO press")
    await checked.execute("bob", use)
    assert await checked.refused("bob", f"EXPLAIN {FILTER}") == "NOT_GRANTED"
    # Somebody else's view can be neither replaced nor dropped.
    assert await checked.refused("bob", f"CREATE OR REPLACE VIEW front AS {FILTER}") == "NOT_GRANTED"
    await checked.execute("bob", "CREATE VIEW behind AS SELECT user_id FROM front")
    assert await checked.refused("bob", f"CREATE OR REPLACE VIEW front AS {PAGES}") == "NOT_OWNER"
    assert await checked.refused("bob", "DROP VIEW front") == "NOT_OWNER"
    assert await checked.refused("bob", CREATE_PAGES) == "PERMISSION_DENIED"
    # Once its owner may not read what is below it, nobody reads it by that.
    await checked.execute("operator", "REVOKE SELECT ON clicks FROM analysts")
    _, said = await refusal(checked.execute("bob", use))
    assert (said.code, said.message) == ("NOT_GRANTED", "the owner of view front may not read clicks")
    # A relation of the same name has none of the old one's grants.
    await checked.execute("bob", "DROP VIEW behind")
    await checked.execute("ann", "DROP VIEW front")
    await checked.execute("operator", "CREATE VIEW front AS SELECT user_id FROM clicks")
    assert await checked.refused("bob", use) == "NOT_GRANTED"


async def test_sharing_gives_nobody_rows_that_it_may_not_read(checked: Checked) -> None:
    await checked.start_agents()
    await checked.create("ann", "submitter", "analysts")
    await checked.create("bob", "submitter")
    await checked.execute("operator", f"{CREATE} GRANT SELECT ON clicks TO analysts")
    (_, shared) = await checked.execute("ann", f"SET sharing = 'sana'; {FILTER}")
    assert shared.query.id
    # The same query, and one that is contained in it, run already.
    for sql in (FILTER, "SELECT user_id FROM clicks WHERE user_id > 7"):
        for mode in ("sana", "max-share", "strict"):
            assert await checked.refused("bob", f"SET sharing = '{mode}'; {sql}") == "NOT_GRANTED"
    assert [q.owner for q in await checked.listed("admin")] == ["ann"]


async def test_sinks_are_written_by_those_they_are_granted_to(checked: Checked) -> None:
    await checked.start_agents()
    sink = "CREATE SINK daily AT eu WITH ('connector' = 'parquet', 'path' = '/out')"
    await checked.execute("operator", f"{CREATE} {sink}; GRANT SELECT ON clicks TO submitter")
    insert = f"EXPLAIN INSERT INTO daily {FILTER}"
    assert await checked.refused("submitter", insert) == "NOT_GRANTED"
    await checked.execute("operator", "GRANT INSERT ON daily TO submitter")
    await checked.execute("submitter", insert)


async def test_functions_are_a_right_of_their_own(checked: Checked) -> None:
    text = "CREATE FUNCTION zone(page STRING) RETURNS STRING LANGUAGE PYTHON AS 'zone' FROM 'geo.py'"
    for name in ("reader", "submitter", "operator", "sites"):
        assert await checked.refused(name, text) == "PERMISSION_DENIED"
    # The text of the module did not come with it.
    assert await checked.refused("functions", text) == "INVALID_REQUEST"
    assert await checked.refused("admin", text) == "INVALID_REQUEST"


async def test_a_script_is_refused_whole_before_anything_is_done(checked: Checked) -> None:
    _, said = await refusal(checked.execute("submitter", f"CREATE VIEW v AS {PAGES};\n{CREATE}"))
    assert (said.code, said.line) == ("PERMISSION_DENIED", 2)
    assert "roles with it: operator, admin" in said.hint


async def test_a_flood_of_one_principal_does_not_hold_up_another(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        checked = Checked(tmp_path, stack)
        # The clock stands still: what was taken does not come back.
        await checked.start(Limits(calls_per_s=5, burst_calls=20))
        stack.push_async_callback(checked.cluster.stop_master)
        await checked.create("flood", "reader")
        outcomes = await asyncio.gather(*(checked.listed("flood") for _ in range(300)), return_exceptions=True)
        passed = [o for o in outcomes if not isinstance(o, BaseException)]
        assert len(passed) == 20
        for _ in range(15):
            await checked.listed("reader")
        code, said = await refusal(checked.listed("flood"))
        assert (code, said.code) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")
        assert said.message == "flood has reached its limit calls_per_s, which is 5"
        assert "--limits" in said.hint
        checked.cluster.clock.advance(timedelta(seconds=1))
        for _ in range(5):
            await checked.listed("flood")
        flood = [r for r in checked.audited() if r["outcome"] == "LIMIT_EXCEEDED"]
        assert [r.get("repeated") for r in flood[:1]] == [None]
        assert len(flood) <= 2


async def test_limits_of_messages_statements_streams_and_queries(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        checked = Checked(tmp_path, stack)
        await checked.start(replace(LIMITS, message_bytes=10_000, statement_bytes=5_000, streams=1, live_queries=1))
        stack.push_async_callback(checked.cluster.stop_master)
        await checked.start_agents()
        await checked.execute("operator", f"{CREATE} GRANT SELECT ON clicks TO submitter")

        async def limit_of(text: str) -> str:
            code, said = await refusal(checked.execute("submitter", text))
            assert (code, said.code) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")
            return said.ids["limit"]

        assert await limit_of("-- " + "x" * 20_000) == "message_bytes"
        assert await limit_of("SHOW SITES -- " + "x" * 6_000) == "statement_bytes"
        query = await checked.submit("submitter")
        assert await limit_of(FILTER) == "live_queries"
        request = query_pb2.WatchQueryRequest(query=query, interval_ms=60_000)
        first = checked.cluster.queries.WatchQuery(request, metadata=checked.shown("submitter"))
        await anext(aiter(first))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(aiter(checked.cluster.queries.WatchQuery(request, metadata=checked.shown("submitter"))))
        assert detail(caught.value).ids["limit"] == "streams"
        await checked.execute("submitter", f"CANCEL QUERY `{query}`")


async def test_messages_that_cannot_be_read_or_are_too_large_end_nothing(checked: Checked) -> None:
    channel = checked.cluster.channel
    for data in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x00"):
        assert await code_of(channel, "QueryService/GetQuery", data, checked.shown("reader")) == "INVALID_REQUEST"
        # Nothing of it is read before it is known who sends it.
        assert await code_of(channel, "QueryService/GetQuery", data, ()) == "UNAUTHENTICATED"
    giant = query_pb2.ExecuteRequest(text="x" * (5 * 1024 * 1024)).SerializeToString()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await anext(
            aiter(
                channel.unary_stream("/selat.v1.QueryService/Execute", None, None)(
                    giant, metadata=checked.shown("admin")
                )
            )
        )
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/selat.v1.QueryService/Nothing", None, None)(b"", metadata=checked.shown("admin"))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert await checked.listed("reader") == []


async def test_the_audit_log_has_what_was_done_and_refused_and_no_secret(checked: Checked) -> None:
    await checked.start_agents()
    await checked.execute("operator", f"{CREATE} GRANT SELECT ON clicks TO submitter")
    secret = "SELECT page FROM clicks WHERE page = 'hunter2'"
    query = await checked.submit("submitter", secret)
    await checked.execute("operator", f"CANCEL QUERY `{query}`")
    await checked.refused("reader", secret)
    await checked.listed("reader")
    own = [r for r in checked.audited() if r["principal"] in ("operator", "submitter", "reader")]
    assert [(r["principal"], r["method"], r["outcome"]) for r in own] == [
        ("operator", "QueryService/Execute", "OK"),
        ("submitter", "QueryService/Execute", "OK"),
        ("operator", "QueryService/Execute", "OK"),
        ("reader", "QueryService/Execute", "PERMISSION_DENIED"),
    ]
    assert [r["relations"] for r in own] == [["clicks"], ["clicks"], ["clicks"], []]
    assert [r["queries"] for r in own] == [[], [query], [query], []]
    assert len({r["statement_sha256"] for r in own[1:4:2]}) == 1
    assert all(r["peer"].startswith("ipv4:127.0.0.1:") and r["at"] and r["token"] for r in own)
    text = checked.audit_log.read_text()
    assert "hunter2" not in text
    assert [name for name, token in checked.tokens.items() if token in text] == []


async def test_the_python_client_shows_its_token(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SELAT_TOKEN_FILE", raising=False)
    address = checked.cluster.address

    def work() -> None:
        with selat.connect(address, token=checked.tokens["admin"]) as client:
            assert (client.caller().kind, client.caller().roles) == ("person", ("admin",))
            made = client.create_token("carl", ["reader"], lifetime=timedelta(hours=1))
            assert made.secret not in repr(made)
            assert "carl" in [t.name for t in client.tokens()]
            with selat.connect(address, token=made.secret) as carl:
                assert carl.caller().name == "carl"
                with pytest.raises(selat.StatementError) as refused:
                    carl.tokens()
                assert refused.value.code == "PERMISSION_DENIED"
                list(carl.script("SHOW SITES"))
                assert client.revoke_token("carl")[0].revoked_at is not None
                with pytest.raises(selat.StatementError, match="was revoked"):
                    carl.queries()
                with pytest.raises(selat.StatementError, match="was revoked"):
                    list(carl.script("SHOW SITES"))
        with pytest.raises(selat.StatementError) as nobody:
            selat.connect(address)
        assert nobody.value.code == "UNAUTHENTICATED"
        monkeypatch.setenv("SELAT_TOKEN_FILE", str(checked.directory / "admin.token"))
        with selat.connect(address) as client:
            assert client.caller().name == "admin"

    await asyncio.to_thread(work)


async def test_the_command_makes_lists_and_revokes_tokens(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELAT_MASTER", checked.cluster.address)
    monkeypatch.setenv("SELAT_TOKEN_FILE", str(checked.directory / "admin.token"))
    file = checked.directory / "dora.token"

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, arguments, prog_name="selat")
        return result.exit_code, result.output

    def work() -> None:
        code, output = run("token", "create", "dora", "--role", "submitter", "--role", "press", "--to", str(file))
        assert code == 0, output
        made = json.loads(output)
        assert (made["name"], made["roles"], made["secret"], made["file"]) == (
            "dora", ["press", "submitter"], None, str(file),
        )  # fmt: skip
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert run("token", "create", "dora", "--role", "reader", "--to", str(file))[0] == 2
        assert json.loads(run("token", "create", "eu", "--site", "eu")[1])["secret"].startswith("selat_")
        for wrong in ((), ("--role", "reader", "--site", "eu")):
            assert run("token", "create", "eu", *wrong)[0] == 2
        assert run("token", "create", "x", "--role", "readr")[0] == 3

        shown = run("token", "whoami", "--token-file", str(file), "-o", "table")[1]
        assert "dora" in shown
        assert run("token", "list", "--token-file", str(file))[0] == 3
        listed = [json.loads(text) for text in run("token", "list")[1].splitlines()]
        assert {"name": "dora", "state": "live"}.items() <= next(t for t in listed if t["id"] == made["id"]).items()
        assert "dora" in run("token", "list", "-o", "table")[1]
        assert json.loads(run("token", "revoke", made["id"])[1])["state"] == "revoked"
        assert made["id"] not in run("token", "list")[1]
        assert made["id"] in run("token", "list", "--all")[1]
        assert run("token", "revoke", "nobody")[0] == 4
        assert run("token", "revoke", "admin")[0] == 3
        code, output = run("token", "whoami", "--token-file", str(file))
        assert (code, "was revoked" in output) == (3, True)
        file.chmod(0o644)
        code, output = run("token", "whoami", "--token-file", str(file))
        assert (code, "others may read" in output) == (2, True)
        monkeypatch.setenv("SELAT_MASTER", "192.0.2.1:7410")
        code, output = run("site", "list")
        assert (code, "not encrypted" in output) == (2, True), output

    await asyncio.to_thread(work)


async def test_a_master_that_checks_nobody_makes_no_tokens_and_no_grants(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        cluster = Cluster(tmp_path / "master", stack)
        await cluster.start_master()
        stack.push_async_callback(cluster.stop_master)
        await cluster.connect()
        access = access_pb2_grpc.AccessServiceStub(cluster.channel)
        for call in (
            access.CreateToken(access_pb2.CreateTokenRequest(name="a", roles=["admin"])),
            access.ListTokens(access_pb2.ListTokensRequest()),
            access.RevokeToken(access_pb2.RevokeTokenRequest(token="a")),
            cluster.execute(f"{CREATE_PAGES}; GRANT SELECT ON pages TO submitter"),
        ):
            code, said = await refusal(call)
            assert (code, said.code) == (grpc.StatusCode.FAILED_PRECONDITION, "ACCESS_OFF")
        assert (await access.GetCaller(access_pb2.GetCallerRequest())).kind == "anonymous"
        assert list((await cluster.execute("SHOW GRANTS"))[0].rows.rows) == []
