"""Plans that an unchanged client of Spark makes, over what is sent of their tables: equal to plain Spark's."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.sql.connect.functions as sf
import pyspark.sql.connect.proto as pb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import SQL, SubqueryAlias
from pyspark.sql.connect.session import SparkSession as RemoteSession
from pyspark.sql.connect.window import Window

from contract.client_plans import named_references, sql_texts, tables_named
from planner.connect.settings import DEFAULTS
from planner.graph.clientplan import ClientPlan, ClientQuery, ClientView
from planner.graph.plan import Analysis, DraftPlan
from planner.graph.whole import Scanned
from planner.planning import Planning, Refusal
from planner.relations.catalog import Column
from planner.values.errors import InvalidExpressionError, PlannerError
from planner.values.names import INPUT_VIEW
from site_agent.engine import AnalysisError, ArrowScan, EmptyScan, EpochRequest, Field, Scan
from site_agent.engine.client_plans import ClientPlans
from site_agent.engine.functions import DEFAULT_LIMITS
from site_agent.engine.spark import SparkEngine
from tests.unit.planner.build import catalog_of

pytestmark = pytest.mark.spark

DECLARED = "CREATE TABLE {} ({}) WITH ('connector' = 'other') AT us AT eu;"
CATALOG = catalog_of(
    DECLARED.format("t", "a INT, b INT, s STRING")
    + DECLARED.format("u", "a INT, d DOUBLE")
    + "CREATE VIEW odd AS SELECT a, count(*) AS n FROM t WHERE a IN (1, 3) GROUP BY a"
)
DATA = {
    "t": pa.table(
        {
            "a": pa.array([1, 1, 2, 3, 3, None], pa.int32()),
            "b": pa.array([10, 20, 30, None, 50, 60], pa.int32()),
            "s": ["x", "y", "x", None, "z", "x"],
        }
    ),
    "u": pa.table({"a": pa.array([1, 3, 4], pa.int32()), "d": [0.5, 1.5, float("nan")]}),
}


@pytest.fixture(scope="module")
def remote() -> Iterator[RemoteSession]:
    """A client that never connects: it makes plans."""
    session = RemoteSession("sc://localhost:1/;user_id=tester")
    client: Any = session._client
    client._plan_compression_threshold, client._plan_compression_algorithm = -1, "NONE"
    client.get_configs = lambda *names: tuple(DEFAULTS.get(name) for name in names)
    client.get_config_dict = lambda *names: {name: DEFAULTS.get(name) for name in names}
    yield session
    client._closed = True


@pytest.fixture(scope="module")
def plans(spark_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ClientPlans:
    return ClientPlans(spark_session, scratch=tmp_path_factory.mktemp("plans"), functions=DEFAULT_LIMITS)


def relation(frame: Any) -> pb.Relation:
    return frame._plan.to_proto(frame._session._client).root


def text_of(message: pb.Relation) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


def query_of(message: pb.Relation, **settings: str) -> ClientQuery:
    plan = ClientPlan(text_of(message), settings={f"spark.sql.{name}": value for name, value in settings.items()})
    return ClientQuery(plan, tuple(tables_named(message)), tuple(sql_texts(message)), named_references(message))


def planned(engine: SparkEngine, plans: ClientPlans, query: ClientQuery) -> DraftPlan:
    """Plan a query as the master does."""
    planning = Planning.of_client(query, CATALOG)
    while questions := planning.questions:
        for question in questions:
            planning = planning.answered(question, answer(engine, plans, question.analysis))
    return planning.result()


def answer(engine: SparkEngine, plans: ClientPlans, asked: Analysis) -> tuple[Column, ...] | Scanned | Refusal:
    views = {name: [Field(c.name, c.type) for c in columns] for name, columns in asked.views.items()}
    try:
        if asked.client is None:
            return tuple(Column(f.name, f.type) for f in engine.analyze(views, asked.statement))
        found = plans.plan_scans(views, asked.client)
    except AnalysisError as error:
        return Refusal(error.message, condition=error.condition)
    return Scanned(tuple(Column(f.name, f.type) for f in found.columns), found.scans)


def run(engine: SparkEngine, draft: DraftPlan) -> pa.Table:
    """The result, each table being one split."""
    made: dict[str, pa.Table] = {}
    for stage in draft.stages[:-1]:
        rows = DATA[stage.relation or ""].select(list(stage.read_columns))
        made[stage.id] = engine.run(EpochRequest(f"q.{stage.id}", stage.sql, ArrowScan(rows), "us")).table
    reduce = draft.stage("reduce")
    sent: dict[str, Scan] = {item.view: ArrowScan(made[item.stage]) for item in reduce.inputs}
    first = sent.pop(INPUT_VIEW, EmptyScan(()))
    return engine.run(EpochRequest("q.plan", "", first, "us", views=sent, client=reduce.client)).table


def sql(session: RemoteSession, text: str, *beside: SubqueryAlias) -> Any:
    """A frame of a text; `session.sql` would ask the server first."""
    return DataFrame(SQL(text, [], {}, list(beside)), session)


FRAMES: Mapping[str, Callable[[Any], Any]] = {
    "a table": lambda spark: spark.table("t"),
    "columns and conditions": lambda spark: (
        spark.table("t").where((sf.col("a") > 1) & sf.col("s").isNotNull()).select("b")
    ),
    "text conditions": lambda spark: spark.table("t").filter("a > 1 AND b < 60").select("a", sf.expr("b * 2 AS twice")),
    "aggregate": lambda spark: spark.table("t").groupBy("a").agg(sf.sum("b").alias("b"), sf.count("*").alias("n")),
    "join": lambda spark: spark.table("t").join(spark.table("u"), "a", "left").select("a", "s", "d"),
    "equal names": lambda spark: (
        spark.table("t").alias("x").join(spark.table("t").alias("y"), sf.col("x.a") == sf.col("y.b") / 10)
    ),
    "window": lambda spark: spark.table("t").withColumn(
        "place", sf.row_number().over(Window.partitionBy("a").orderBy("b"))
    ),
    "set operations": lambda spark: spark.table("t").select("a").unionAll(spark.table("u").select("a")).distinct(),
    "pivot": lambda spark: spark.table("t").groupBy("a").pivot("s", ["x", "y"]).agg(sf.sum("b")),
    "pivot without values": lambda spark: spark.table("t").groupBy("a").pivot("s").agg(sf.sum("b")),
    "order and limit": lambda spark: spark.table("t").orderBy(sf.desc("b")).limit(2),
    "na": lambda spark: spark.table("t").na.fill({"b": 0}).na.drop(subset=["a"]),
    "describe": lambda spark: spark.table("t").describe("b"),
    "crosstab": lambda spark: spark.table("t").crosstab("a", "s"),
    "local rows": lambda spark: spark.createDataFrame(
        pa.table({"a": pa.array([1, 2], pa.int32()), "name": ["one", "two"]})
    ).join(spark.table("u"), "a"),
    "SQL": lambda spark: sql(spark, "SELECT s, count(*) AS n FROM t GROUP BY s"),
    "SQL over a view": lambda spark: sql(spark, "SELECT * FROM odd").where("n > 1"),
    "SQL over a frame": lambda spark: sql(
        spark, "SELECT max(b) AS b FROM frame", SubqueryAlias(spark.table("t").where("a < 3")._plan, "frame")
    ),
    "show": lambda spark: spark.table("t").orderBy("b"),
    "drop and rename": lambda spark: (
        spark.table("t").drop("s").withColumnRenamed("b", "c").dropDuplicates(["a"]).select("a")
    ),
    "unpivot": lambda spark: spark.table("t").unpivot(["s"], ["a", "b"], "name", "value"),
    "lambda": lambda spark: spark.table("t").select(sf.transform(sf.array("a", "b"), lambda x: x + 1).alias("l")),
    "subquery": lambda spark: spark.table("t").where(sf.col("a").isin(spark.table("u").select("a"))),
}
"""It holds, by name, what a client asks for."""


def shown(frame: Any, name: str) -> pb.Relation:
    message = relation(frame)
    if name != "show":
        return message
    return pb.Relation(show_string=pb.ShowString(input=message, num_rows=20, truncate=20))


CORE = ("join", "equal names", "pivot without values", "local rows", "SQL over a view", "SQL over a frame", "show")
"""One of each way through planner and engine; the others run with `make long`."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in CORE else pytest.mark.long) for name in FRAMES]
)
def test_equal_to_plain_spark(
    name: str, remote: RemoteSession, spark_engine: SparkEngine, plans: ClientPlans, spark_session: SparkSession
) -> None:
    message = shown(FRAMES[name](remote), name)
    found = run(spark_engine, planned(spark_engine, plans, query_of(message)))
    assert rows_of(found) == rows_of(plainly(plans, message, spark_session))


def plainly(plans: ClientPlans, message: pb.Relation, session: SparkSession) -> pa.Table:
    """The same plan over the whole tables, in a session of Spark."""
    from site_agent.engine.client.plans import ClientSession, with_names
    from site_agent.engine.sql.statements import Names

    plain = session.newSession()
    for name, rows in DATA.items():
        plain.createDataFrame(rows).createOrReplaceTempView(name)
    plain.sql("SELECT a, count(*) AS n FROM t WHERE a IN (1, 3) GROUP BY a").createOrReplaceTempView("odd")
    client = ClientSession(plain, Names(frozenset(("t", "u", "odd"))))
    return with_names(client.rows(message)).toArrow()


def rows_of(table: pa.Table) -> list[str]:
    return sorted(str(tuple(row.values())) for row in table.to_pylist())


def test_only_what_matters_is_sent(remote: RemoteSession, spark_engine: SparkEngine, plans: ClientPlans) -> None:
    frame = remote.table("t").where("a = 1").groupBy("a").agg(sf.max("b"))
    draft = planned(spark_engine, plans, query_of(shown(frame, "show")))
    (scan,) = draft.scans
    assert scan.columns == ("a", "b")
    assert "a = 1" in scan.conditions


def test_another_clock_leaves_conditions_to_the_plan(
    remote: RemoteSession, spark_engine: SparkEngine, plans: ClientPlans
) -> None:
    query = query_of(relation(remote.table("t").where("a = 1")), **{"session.timeZone": "Asia/Tokyo"})
    assert planned(spark_engine, plans, query).scans[0].conditions == ()


def test_views_of_the_session_hide_tables(remote: RemoteSession, spark_engine: SparkEngine, plans: ClientPlans) -> None:
    view = relation(remote.table("t").where("a = 2").select("a"))
    root = relation(sql(remote, "SELECT * FROM u"))
    plan = ClientPlan(text_of(root), (ClientView("u", relation=text_of(view)),))
    draft = planned(spark_engine, plans, ClientQuery(plan, ("t",), ("SELECT * FROM u",), frozenset(("u",))))
    assert run(spark_engine, draft).to_pylist() == [{"a": 2}]


def test_what_reads_no_table_runs_at_once(remote: RemoteSession, plans: ClientPlans, tmp_path: Path) -> None:
    query = query_of(relation(sql(remote, "SELECT 1 AS one, 'x' AS one")))
    assert Planning.of_client(query, CATALOG).reads_nothing
    found = plans.run_plan(query.plan, "job")
    assert (found.column_names, [column.to_pylist() for column in found.columns]) == (["one", "one"], [[1], ["x"]])


def test_questions_about_plans(remote: RemoteSession, plans: ClientPlans) -> None:
    question = pb.AnalyzePlanRequest(session_id="s")
    question.schema.plan.root.CopyFrom(relation(remote.table("t").select("b")))
    tables = {"t": (Field("a", "INT"), Field("b", "INT"), Field("s", "STRING"))}
    answered = pb.AnalyzePlanResponse.FromString(plans.ask_plan(tables, ClientPlan(""), question.SerializeToString()))
    assert [field.name for field in answered.schema.schema.struct.fields] == ["b"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (pb.Relation(read=pb.Read(data_source=pb.Read.DataSource(format="csv", paths=["/etc/passwd"]))), "data_source"),
        (pb.Relation(sql=pb.SQL(query="SELECT reflect('java.lang.System', 'getenv')")), "reflect"),
        (pb.Relation(sql=pb.SQL(query="INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1")), "not possible"),
        (pb.Relation(sql=pb.SQL(query="SELECT * FROM csv.`/etc/passwd`")), "no relation"),
        (
            pb.Relation(read=pb.Read(named_table=pb.Read.NamedTable(unparsed_identifier="csv.`/etc/passwd`"))),
            "no relation",
        ),
        (
            pb.Relation(
                filter=pb.Filter(
                    input=pb.Relation(range=pb.Range(end=3, step=1)),
                    condition=pb.Expression(
                        expression_string=pb.Expression.ExpressionString(expression="java_method('a', 'b') = 1")
                    ),
                )
            ),
            "java_method",
        ),
    ],
)
def test_the_agent_checks_again(message: pb.Relation, said: str, plans: ClientPlans) -> None:
    """The master refuses these as well; an agent does not rely on that, nor does anything run before the check."""
    with pytest.raises(AnalysisError, match=said):
        plans.run_plan(ClientPlan(text_of(message)), "job")
    shows = pb.Relation(show_string=pb.ShowString(input=message, num_rows=1))
    with pytest.raises(AnalysisError, match=said):
        plans.run_plan(ClientPlan(text_of(shows)), "job")


def test_sparks_refusals_have_their_conditions(
    remote: RemoteSession, spark_engine: SparkEngine, plans: ClientPlans
) -> None:
    with pytest.raises(InvalidExpressionError, match="nothing") as raised:
        planned(spark_engine, plans, query_of(relation(remote.table("t").select("nothing"))))
    assert raised.value.ids["condition"].startswith("UNRESOLVED_COLUMN")
    with pytest.raises(PlannerError, match="missing"):
        Planning.of_client(query_of(relation(remote.table("missing"))), CATALOG)
