"""An unchanged Spark client against a real master with stand-ins for the agents: sessions, operations, refusals."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pyarrow as pa
import pyspark
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.connect import proto as pb
from pyspark.sql.connect.functions import rand, udf
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.pandas.types import from_arrow_schema

from master.connect.answers import stream_of
from master.connect.server import serving_clients
from master.connect.service import SERVICE
from selat.v1 import common_pb2, exchange_pb2
from tests.fakes.agent import FakeAgent
from tests.integration.checked_master import Checked
from tests.integration.master_cluster import Cluster
from wire.guests import Certificate

ONE = pa.table({"one": pa.array([1], pa.int32())})


def answers(agent: FakeAgent, *tables: pa.Table) -> None:
    """The agent's Spark gives these rows, and their schema, to whatever it is asked."""
    schema = pyspark_types_to_proto_types(from_arrow_schema(tables[0].schema))
    answer = pb.AnalyzePlanResponse(schema=pb.AnalyzePlanResponse.Schema(schema=schema))
    agent.exchange.answer = exchange_pb2.AskPlanResponse(answer=answer.SerializeToString())
    agent.exchange.rows = [
        exchange_pb2.RunPlanResponse(arrow_stream=stream_of(table), rows=table.num_rows) for table in tables
    ]


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as found:
        yield found


@pytest.fixture
async def cluster(tmp_path: Path, stack: AsyncExitStack) -> AsyncIterator[Cluster]:
    found = Cluster(tmp_path / "master", stack)
    await found.start_master()
    await found.connect()
    answers(await found.agent("hub"), ONE)
    yield found
    await found.stop_master()


@pytest.fixture
async def port(cluster: Cluster, stack: AsyncExitStack) -> int:
    return await served(cluster, stack)


async def served(cluster: Cluster, stack: AsyncExitStack) -> int:
    address = await stack.enter_async_context(serving_clients(cluster.master.client_parts(), "localhost:0", None))
    return int(address.rpartition(":")[2])


def session(port: int, parameters: str = "") -> SparkSession:
    return SparkSession(f"sc://localhost:{port}/;user_id=tester{parameters}")


async def asked(port: int, ask: Callable[[SparkSession], Any], parameters: str = "") -> Any:
    """Return what a client in a thread of its own gets, in a session of its own."""

    def run() -> Any:
        spark = session(port, parameters)
        try:
            return ask(spark)
        finally:
            spark.stop()

    return await asyncio.to_thread(run)


async def test_a_plan_without_tables_runs_at_the_gateway(port: int, cluster: Cluster) -> None:
    assert await asked(port, lambda spark: spark.sql("SELECT 1 AS one").collect()[0].one) == 1
    assert (await asked(port, lambda spark: spark.range(1).toPandas()))["one"].tolist() == [1]
    assert len(cluster.agents["hub"].exchange.plans) == 2


async def test_rows_come_in_order_and_under_their_names(port: int, cluster: Cluster) -> None:
    parts = [pa.table({"c0": [first, first + 1], "c1": ["x", "y"]}) for first in (0, 2, 4)]
    answers(cluster.agents["hub"], parts[0].rename_columns(["n", "n"]), *parts[1:])
    table = await asked(port, lambda spark: spark.range(9).toArrow())
    assert table.column_names == ["n", "n"]
    assert table.column(0).to_pylist() == [0, 1, 2, 3, 4, 5]


async def test_no_rows_have_a_schema(port: int, cluster: Cluster) -> None:
    answers(cluster.agents["hub"], ONE.slice(0, 0))
    assert (await asked(port, lambda spark: spark.range(0).toPandas())).columns.tolist() == ["one"]


async def test_sparks_refusals_are_sparks_errors(port: int, cluster: Cluster) -> None:
    told = common_pb2.ErrorDetail(code="UNRESOLVED_COLUMN.WITH_SUGGESTION", message="there is no column x")
    cluster.agents["hub"].exchange.rows = [exchange_pb2.RunPlanResponse(error=told)]
    with pytest.raises(AnalysisException, match="there is no column x") as raised:
        await asked(port, lambda spark: spark.range(1).select("x").collect())
    assert raised.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "files": (lambda spark: spark.read.csv("/etc/passwd").collect(), "Read.data_source"),
    "files by SQL": (lambda spark: spark.sql("SELECT * FROM csv.`/etc/passwd`").collect(), "SELAT"),
    "writing": (lambda spark: spark.range(3).write.parquet("/tmp/nothing"), "write_operation"),
    "writing by SQL": (
        lambda spark: spark.sql("INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1"),
        "SELAT|PARSE",
    ),
    "DDL": (lambda spark: spark.sql("DROP TABLE orders"), "queries, INSERT INTO, SHOW, DESCRIBE and EXPLAIN alone"),
    "functions": (lambda spark: spark.range(3).select(udf(lambda x: x)("id")).collect(), "user_defined_function"),
    "registered functions": (lambda spark: spark.udf.register("f", lambda x: x), "register_function"),
    "settings": (lambda spark: spark.conf.set("spark.sql.warehouse.dir", "/tmp"), "cannot be changed"),
    "artifacts": (lambda spark: spark.addArtifact(__file__, file=True), "cannot be added"),
    "streams": (lambda spark: spark.readStream.table("clicks").schema, "is_streaming.*selat sql"),
    "an unknown table": (lambda spark: spark.table("nowhere").collect(), "nowhere"),
    "global views": (lambda spark: spark.range(1).createGlobalTempView("g"), "global"),
    "a database": (lambda spark: spark.catalog.setCurrentDatabase("other"), "one catalog"),
    "a missing argument": (lambda spark: spark.sql("SELECT :x", args={"y": 1}), "UNBOUND_SQL_PARAMETER.*:x"),
    "an argument that computes": (lambda spark: spark.sql("SELECT ?", args=[rand()]), "INVALID_SQL_ARG.*argument 1"),
    "a command in an argument": (lambda spark: spark.sql("?", args=["DROP TABLE x"]).collect(), "SELAT|PARSE"),
    "dropping": (lambda spark: spark.sql("SELECT 1; DROP TABLE x").collect(), "SELAT|PARSE"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused(name: str, port: int, cluster: Cluster) -> None:
    ask, said = REFUSED[name]
    with pytest.raises(PySparkException, match=said):
        await asked(port, ask)
    assert not cluster.agents["hub"].exchange.plans


async def test_views_go_with_plans_and_mean_what_they_meant(port: int, cluster: Cluster) -> None:
    def views(spark: SparkSession) -> None:
        spark.range(3).createOrReplaceTempView("v")
        spark.table("v").where("id > 1").createOrReplaceTempView("v")
        spark.table("v").collect()
        assert [table.name for table in spark.catalog.listTables()] == ["v"]
        assert spark.catalog.dropTempView("v")
        assert not spark.catalog.tableExists("v")

    await asked(port, views)
    (plan,) = cluster.agents["hub"].exchange.plans
    relation = pb.Relation.FromString(base64.b64decode(plan.plan.relation))
    inner = relation.subquery_alias.input.filter.input
    assert inner.subquery_alias.input.range.end == 3


async def test_arguments_are_in_the_texts_that_sites_get(port: int, cluster: Cluster) -> None:
    def ask(spark: Any) -> None:
        spark.sql("SELECT :x AS one", args={"x": "it's"}).collect()
        spark.sql("SELECT ? AS one", args=[1]).createOrReplaceTempView("v")
        spark.sql("SELECT * FROM v WHERE one = ? UNION SELECT * FROM {ten}", args=[2], ten=spark.range(10)).collect()

    await asked(port, ask)
    first, second = (
        pb.Relation.FromString(base64.b64decode(plan.plan.relation)) for plan in cluster.agents["hub"].exchange.plans
    )
    assert first.sql.query == "SELECT 'it\\'s' AS one"
    ten, one = second.with_relations.references
    assert second.with_relations.root.sql.query == (
        f"SELECT * FROM v WHERE one = 2 UNION SELECT * FROM {ten.subquery_alias.alias}"
    )
    assert one.subquery_alias.input.sql.query == "SELECT 1 AS one"


async def test_arguments_of_earlier_clients(port: int, cluster: Cluster) -> None:
    """They stand in the command, and the relation that comes back has them in its text."""
    one = pb.Expression.Literal(integer=1)
    commands = (
        pb.SqlCommand(sql="SELECT :x", args={"x": one}),
        pb.SqlCommand(sql="SELECT ?", pos_args=[one]),
        pb.SqlCommand(sql="SELECT :x", named_arguments={"x": pb.Expression(literal=one)}),
        pb.SqlCommand(sql="SELECT ?", pos_arguments=[pb.Expression(literal=one)]),
    )
    async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
        for command in commands:
            sent = pb.ExecutePlanRequest(session_id=str(uuid.uuid4()), operation_id=str(uuid.uuid4()))
            sent.plan.command.sql_command.CopyFrom(command)
            first = await anext(aiter(stream(channel, "ExecutePlan")(sent)))
            assert first.sql_command_result.relation == pb.Relation(sql=pb.SQL(query="SELECT 1"))


async def test_settings_are_a_sessions(port: int, cluster: Cluster) -> None:
    def settings(spark: SparkSession) -> None:
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        spark.range(1).collect()
        assert spark.conf.isModifiable("spark.sql.session.timeZone")
        assert spark.conf.get("spark.unknown", "none") == "none"
        spark.conf.unset("spark.sql.session.timeZone")
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"

    await asked(port, settings)
    (plan,) = cluster.agents["hub"].exchange.plans
    assert dict(plan.plan.settings) == {"spark.sql.session.timeZone": "Asia/Tokyo"}


async def test_an_interrupt_ends_what_runs(port: int, cluster: Cluster) -> None:
    exchange = cluster.agents["hub"].exchange
    exchange.may_run.clear()
    spark = await asyncio.to_thread(session, port)
    running = asyncio.create_task(asyncio.to_thread(lambda: spark.range(1).collect()))
    async with asyncio.timeout(60):
        while not exchange.plans:
            await asyncio.sleep(0.01)
        assert len(await asyncio.to_thread(spark.interruptAll)) == 1
        with pytest.raises(PySparkException, match="cancelled"):
            await running
        await exchange.stopped.wait()
    exchange.may_run.set()
    assert await asyncio.to_thread(lambda: len(spark.range(1).collect())) == 1
    await asyncio.to_thread(spark.stop)


async def test_a_session_that_ends_takes_its_operations_along(port: int, cluster: Cluster) -> None:
    exchange = cluster.agents["hub"].exchange
    exchange.may_run.clear()
    async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
        name = str(uuid.uuid4())
        call = stream(channel, "ExecutePlan")(request(name))
        async with asyncio.timeout(60):
            while not exchange.plans:
                await asyncio.sleep(0.01)
            release = pb.ReleaseSessionRequest(session_id=name)
            await unary(channel, "ReleaseSession", pb.ReleaseSessionResponse)(release)
            await exchange.stopped.wait()
            with pytest.raises(grpc.aio.AioRpcError):
                async for _ in call:
                    pass


async def test_a_client_comes_back_for_the_rest(port: int, cluster: Cluster) -> None:
    parts = [pa.table({"one": pa.array([number], pa.int32())}) for number in range(4)]
    answers(cluster.agents["hub"], *parts)
    async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
        sent = request(str(uuid.uuid4()), reattachable=True)
        call = stream(channel, "ExecutePlan")(sent)
        first = await anext(aiter(call))
        call.cancel()
        again = pb.ReattachExecuteRequest(
            session_id=sent.session_id, operation_id=first.operation_id, last_response_id=first.response_id
        )
        rest = [response async for response in stream(channel, "ReattachExecute")(again)]
        assert [response.arrow_batch.start_offset for response in rest[:-1]] == [1, 2, 3]
        assert rest[-1].HasField("result_complete")
        asked = pb.GetStatusRequest(session_id=sent.session_id)
        asked.operation_status.operation_ids.extend((first.operation_id, "other"))
        told = await unary(channel, "GetStatus", pb.GetStatusResponse)(asked)
        kinds = pb.GetStatusResponse.OperationStatus.OperationState
        assert [kinds.Name(one.state) for one in told.operation_statuses] == [
            "OPERATION_STATE_SUCCEEDED",
            "OPERATION_STATE_UNKNOWN",
        ]
        release = pb.ReleaseExecuteRequest(session_id=sent.session_id, operation_id=first.operation_id)
        release.release_all.SetInParent()
        await unary(channel, "ReleaseExecute", pb.ReleaseExecuteResponse)(release)
        with pytest.raises(grpc.aio.AioRpcError, match="OPERATION_NOT_FOUND"):
            [response async for response in stream(channel, "ReattachExecute")(again)]


async def test_a_clone_has_names_and_settings(port: int, cluster: Cluster) -> None:
    def clone(spark: Any) -> None:
        spark.range(3).createOrReplaceTempView("v")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        other = spark.cloneSession()
        assert other.conf.get("spark.sql.ansi.enabled") == "false"
        assert other.catalog.tableExists("v")
        other.catalog.dropTempView("v")
        assert spark.catalog.tableExists("v")

    await asked(port, clone)


async def test_a_restarted_master_says_so(port: int, cluster: Cluster, stack: AsyncExitStack) -> None:
    spark = await asyncio.to_thread(session, port)
    await asyncio.to_thread(lambda: spark.range(1).collect())
    other = await served(cluster, stack)
    async with grpc.aio.insecure_channel(f"localhost:{other}") as channel:
        sent = request(spark.session_id)
        sent.client_observed_server_side_session_id = "of-another"
        with pytest.raises(grpc.aio.AioRpcError, match="SESSION_CHANGED"):
            [response async for response in stream(channel, "ExecutePlan")(sent)]
    await asyncio.to_thread(spark.stop)


async def test_a_site_that_is_away(port: int, cluster: Cluster) -> None:
    with pytest.raises(PySparkException, match="site eu, where this session's plans run, is away"):
        await asked(port, lambda spark: spark.range(1).collect(), ";site=eu")
    with pytest.raises(PySparkException, match="mars"):
        await asked(port, lambda spark: spark.range(1).collect(), ";site=mars")


async def test_callers_are_checked_told_apart_and_audited(tmp_path: Path, stack: AsyncExitStack) -> None:
    checked = Checked(tmp_path, stack)
    await checked.start()
    stack.push_async_callback(checked.cluster.stop_master)
    hub = await FakeAgent(
        "hub",
        checked.cluster.address,
        analyze=lambda request: exchange_pb2.AnalyzeResponse(),
        metadata=checked.shown("sites"),
    ).start()
    stack.push_async_callback(hub.stop)
    answers(hub, ONE)
    port = await served(checked.cluster, stack)
    with pytest.raises(PySparkException, match="token"):
        await asked(port, lambda spark: spark.range(1).collect())
    with pytest.raises(PySparkException, match="may not do that"):
        await asked(port, lambda spark: spark.range(1).collect(), f";token={checked.tokens['reader']}")

    def mine(spark: SparkSession) -> list[str]:
        spark.range(1).createOrReplaceTempView("v")
        with pytest.raises(PySparkException, match="data_source"):
            spark.read.csv("/etc/passwd").collect()
        return [table.name for table in spark.catalog.listTables()]

    name = f";session_id={uuid.uuid4()}"
    assert await asked(port, mine, f";token={checked.tokens['submitter']}{name}") == ["v"]
    tables = await asked(port, lambda spark: spark.catalog.listTables(), f";token={checked.tokens['operator']}{name}")
    assert tables == []
    lines = [json.loads(text) for text in checked.audit_log.read_text().splitlines()]
    refused = [line for line in lines if line["outcome"] == "UNSUPPORTED_SQL"]
    assert [(line["principal"], line["method"]) for line in refused] == [("submitter", f"/{SERVICE}/ExecutePlan")]


def nothing(asked: exchange_pb2.AnalyzeRequest) -> exchange_pb2.AnalyzeResponse:
    return exchange_pb2.AnalyzeResponse()


def request(session_id: str, *, reattachable: bool = False) -> Any:
    sent = pb.ExecutePlanRequest(session_id=session_id, operation_id=str(uuid.uuid4()))
    sent.plan.root.range.end, sent.plan.root.range.step = 3, 1
    if reattachable:
        sent.request_options.add().reattach_options.reattachable = True
    return sent


def stream(channel: grpc.aio.Channel, method: str) -> Any:
    return channel.unary_stream(
        f"/{SERVICE}/{method}", lambda message: message.SerializeToString(), pb.ExecutePlanResponse.FromString
    )


def unary(channel: grpc.aio.Channel, method: str, kind: Any) -> Any:
    return channel.unary_unary(f"/{SERVICE}/{method}", lambda message: message.SerializeToString(), kind.FromString)


async def test_tls_with_a_certificate_of_the_host(cluster: Cluster, stack: AsyncExitStack, tmp_path: Path) -> None:
    certificate = host_certificate(tmp_path)
    serving = serving_clients(cluster.master.client_parts(), "localhost:0", certificate)
    address = await stack.enter_async_context(serving)
    credentials = grpc.ssl_channel_credentials(certificate.chain.read_bytes())
    async with grpc.aio.secure_channel(f"localhost:{address.rpartition(':')[2]}", credentials) as channel:
        asked = pb.AnalyzePlanRequest(session_id=str(uuid.uuid4()))
        asked.spark_version.SetInParent()
        answer = await unary(channel, "AnalyzePlan", pb.AnalyzePlanResponse)(asked)
    assert answer.spark_version.version == pyspark.__version__


def host_certificate(directory: Path) -> Certificate:
    """One that says that it is localhost's, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    today = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    found = Certificate(directory / "chain.pem", directory / "key.pem")
    found.chain.write_bytes(made.public_bytes(Encoding.PEM))
    found.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return found


async def test_the_catalog(port: int, cluster: Cluster) -> None:
    await cluster.execute(
        "CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'files', 'path' = '/x', 'format' = 'csv') AT us;"
    )

    def looked(spark: Any) -> None:
        catalog = spark.catalog
        assert (catalog.currentCatalog(), catalog.currentDatabase()) == ("spark_catalog", "default")
        assert [found.name for found in catalog.listDatabases()] == ["default"]
        assert catalog.databaseExists("default")
        assert not catalog.databaseExists("other")
        assert (catalog.getTable("t").name, catalog.tableExists("default.t"), catalog.tableExists("u")) == (
            "t",
            True,
            False,
        )
        assert [(found.name, found.dataType) for found in catalog.listColumns("t")] == [("a", "int"), ("b", "string")]
        assert [found.name for found in catalog.listTables(pattern="x*")] == []
        assert catalog.functionExists("upper")
        assert not catalog.functionExists("reflect")
        assert [found.name for found in catalog.listFunctions(pattern="regr_r*")] == ["regr_r2"]
        assert catalog.getFunction("upper").isTemporary
        catalog.cacheTable("default.t")
        assert (catalog.isCached("t"), catalog.isCached("u")) == (True, False)
        catalog.uncacheTable("T")
        assert not catalog.isCached("t")
        with pytest.raises(PySparkException, match="nothing"):
            catalog.cacheTable("nothing")
        rows = spark.range(3)
        assert not rows.storageLevel.useDisk
        assert rows.cache().storageLevel.useDisk
        assert not spark.range(4).storageLevel.useDisk
        assert not rows.unpersist().storageLevel.useDisk
        rows.persist()
        catalog.cacheTable("t")
        catalog.clearCache()
        assert not rows.storageLevel.useDisk
        assert not catalog.isCached("t")
        catalog.setCurrentDatabase("default")
        with pytest.raises(PySparkException, match="nothing"):
            catalog.getFunction("nothing")
        spark.sql("CREATE TEMP VIEW ten AS SELECT :n AS n", args={"n": 10})
        assert catalog.tableExists("ten")
        with pytest.raises(PySparkException, match="TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"):
            spark.sql("CREATE TEMP VIEW ten AS SELECT 1")
        spark.sql("DROP VIEW ten")
        assert not catalog.tableExists("ten")
        with pytest.raises(PySparkException, match="one catalog"):
            spark.sql("USE other")
        with pytest.raises(PySparkException, match="SCHEMA_NOT_FOUND"):
            spark.sql("SHOW TABLES IN other")
        with pytest.raises(PySparkException, match="create_table"):
            catalog.createTable("x", schema=spark.range(1).schema)

    await asked(port, looked)
