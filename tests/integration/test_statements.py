"""The agent's check of SQL: nothing reaches Spark but a single query of allowed parts, whoever sends it.

The planner's own check is not involved here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from planner.functions.table import NAMES, REASONS
from planner.sql.dialect import exp, name_node, render
from planner.values.literals import quoted_name, quoted_text, text_of
from selat.v1 import common_pb2, exchange_pb2, exchange_pb2_grpc
from site_agent.base.errors import EngineError
from site_agent.channels.store import ChannelStore
from site_agent.engine import AnalysisError, ArrowScan, EpochRequest, Field, RangeScan
from site_agent.engine.spark import SparkEngine
from site_agent.engine.sql import statements
from site_agent.engine.sql.statements import REFUSED, Names
from site_agent.host import start_exchange
from tests.unit.planner.functions.test_table import BY_SYNTAX
from tests.unit.planner.sql.test_dialect import CHANGED, UNCHANGED

pytestmark = pytest.mark.spark

VIEWS = {"input": (Field("page", "STRING"), Field("ms", "INT"), Field("tags", "ARRAY<STRING>"))}
ROWS = pa.table({"page": ["a"], "ms": pa.array([1], pa.int32()), "tags": [["x"]]})

FUNCTIONS = (
    *("reflect('java.lang.Runtime', 'x')", "REFLECT('a', 'b')", "java_method('a', 'b')", "try_reflect('a', 'b')"),
    *("`reflect`('a', 'b')", "`ReFlect` /* c */ ('a', 'b')", "reflect -- c\n('a', 'b')", "builtin.reflect('a', 'b')"),
    *("system.builtin.reflect('a', 'b')", "`system`.`builtin`.`reflect`('a', 'b')", "session.reflect('a', 'b')"),
    *("{fn reflect('a', 'b')}", "upper(reflect('a', 'b'))", "transform(tags, x -> reflect('a', x))"),
    *("CASE WHEN true THEN reflect('a', 'b') END", "tags[reflect('a', 'b')]", "(page, reflect('a', 'b')).col1"),
    *("IDENTIFIER('reflect')('a', 'b')", "IDENTIFIER('ref' || 'lect')('a', 'b')", "IDENTIFIER('page')", ":x", "?"),
    *("max(ms) FILTER (WHERE reflect('a', 'b') = 'c')", "max(ms) OVER (ORDER BY reflect('a', 'b'))", "f(a => 1)"),
    *("listagg(page) WITHIN GROUP (ORDER BY reflect('a', 'b'))", "input_file_name()", "input_file_block_start()"),
    *("current_user()", "version()", "spark_partition_id()", "monotonically_increasing_id()", "rand()", "uuid()"),
    *("now()", "aes_encrypt(page, 'k')", "xpath(page, 'a')", "from_xml(page, 'a INT')", "from_avro(page, 'a')"),
    *("from_protobuf(page, 'a')", "read_files('/etc')", "nope(page)", "`+`(ms, 1)", "default.reflect('a', 'b')"),
    *("a.b.reflect('a', 'b')", "(SELECT reflect('a', 'b'))", "EXISTS (SELECT now())", "ms IN (SELECT rand())"),
    *("(SELECT max(page) FROM other)", "sum(ms) OVER (PARTITION BY reflect('a', 'b'))"),
)
QUERIES = (
    "SELECT TRANSFORM(page) USING '{}' AS y FROM input",
    "SELECT MAP page USING '{}' AS y FROM input",
    "FROM input REDUCE page USING '{}' AS y",
    "SELECT * FROM (SELECT TRANSFORM(page) USING '{}' AS y FROM input)",
    "WITH d AS (SELECT TRANSFORM(page) USING '{}' AS y FROM input) SELECT * FROM d",
    "SELECT page FROM input UNION ALL SELECT TRANSFORM(page) USING '{}' AS y FROM input",
    "SELECT a.page FROM input AS a JOIN (SELECT TRANSFORM(page) USING '{}' AS y FROM input) AS b ON a.page = b.y",
    "SELECT page FROM input, LATERAL (SELECT TRANSFORM(page) USING '{}' AS y)",
    "-- \\\nSELECT page FROM input\nSELECT TRANSFORM(page) USING '{}' AS y FROM input",
    "SELECT page FROM input -- a\rUNION ALL SELECT TRANSFORM(page) USING '{}' AS y FROM input",
    "SELECT page FROM input GROUP BY page, reflect('a', 'b')",
    "SELECT page FROM input ORDER BY reflect('a', 'b')",
    "SELECT page FROM input LIMIT reflect('a', 'b')",
    "SELECT page FROM input LATERAL VIEW reflect('a', 'b') x AS y",
    "SELECT page FROM input LATERAL VIEW explode(array(reflect('a', 'b'))) x AS y",
    "SELECT * REPLACE (reflect('a', 'b') AS page) FROM input",
    "SELECT /*+ BROADCAST(input) */ page FROM input",
    "SELECT /*+ COALESCE(1) */ page FROM input",
    "SELECT * FROM csv.`/etc/passwd`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM parquet.`file:///x`",
    "SELECT * FROM default.input",
    "SELECT * FROM other",
    "SELECT * FROM range(3)",
    "SELECT * FROM explode(array(1))",
    "SELECT * FROM read_files('/etc')",
    "SELECT * FROM python_worker_logs()",
    "SELECT * FROM IDENTIFIER('csv.`/etc/passwd`')",
    "SELECT * FROM input WITH ('a' = 'b')",
    "SELECT * FROM input VERSION AS OF 1",
    "SELECT * FROM STREAM input",
    "SELECT * FROM input TABLESAMPLE (5 PERCENT)",
    "SELECT * FROM input PIVOT (max(reflect('a', 'b')) FOR page IN ('a'))",
    "SELECT * FROM (SELECT ms FROM input) UNPIVOT (v FOR k IN (ms)) WHERE reflect('a', k) = 'c'",
    "SELECT page FROM input EXCEPT SELECT reflect('a', 'b') AS page",
    "SELECT page FROM input WHERE page IN (SELECT TRANSFORM(page) USING '{}' AS y FROM input)",
    "SELECT page FROM input WHERE EXISTS (SELECT * FROM csv.`/etc/passwd`)",
    "SELECT a.page FROM input AS a FULL JOIN other AS b ON a.page = b.page",
    "SELECT a.page FROM input AS a LEFT ANTI JOIN input AS b ON reflect('a', 'b') = b.page",
    "SELECT page, count(*) FROM input GROUP BY CUBE (page, reflect('a', 'b'))",
    "SELECT sum(ms) OVER w FROM input WINDOW w AS (PARTITION BY reflect('a', 'b'))",
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT reflect('a', 'b') FROM r) SELECT n FROM r",
    "SELECT * FROM VALUES (reflect('a', 'b')) AS v",
    "FROM input |> WHERE reflect('a', 'b') = 'c'",
    "FROM input INSERT INTO x SELECT page",
    "TABLE other",
    "INSERT OVERWRITE DIRECTORY '{file}' USING csv SELECT page FROM input",
    "INSERT OVERWRITE LOCAL DIRECTORY '{file}' SELECT page FROM input",
    "INSERT INTO csv.`{file}` SELECT page FROM input",
    "WITH d AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{file}' USING csv SELECT * FROM d",
    "CREATE TABLE x USING csv LOCATION '{file}' AS SELECT page FROM input",
    "CREATE TEMPORARY VIEW x AS SELECT 1",
    "CREATE TEMPORARY VIEW x USING csv OPTIONS (path '/etc/passwd')",
    "CREATE TEMPORARY FUNCTION x AS 'java.lang.System'",
    "CREATE TEMPORARY FUNCTION x() RETURNS STRING RETURN reflect('a', 'b')",
    "CREATE DATABASE x LOCATION '{file}'",
    "DROP VIEW input",
    "CACHE TABLE x AS SELECT 1",
    "ADD JAR '/x.jar'",
    "ADD FILE '/etc/passwd'",
    "ADD ARCHIVE '/x.zip'",
    "LIST JARS",
    "SET spark.sql.shuffle.partitions = 77",
    "SET VARIABLE x = 1",
    "RESET",
    "DECLARE x INT DEFAULT 1",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "BEGIN SELECT 1; END",
    "USE default",
    "SHOW TABLES",
    "DESCRIBE input",
    "EXPLAIN SELECT page FROM input",
    "LOAD DATA INPATH '/etc/passwd' INTO TABLE x",
    "DFS -ls /",
    "!ls",
    "SELECT 1; SELECT 2",
    "SELECT page FROM input; DROP VIEW input",
    "",
)


@pytest.fixture
def spark(spark_engine: SparkEngine) -> SparkSession:
    return spark_engine._base.newSession()


def attacks() -> Iterator[str]:
    yield from (f"SELECT {text} AS q FROM input" for text in FUNCTIONS)
    yield from QUERIES


@pytest.mark.parametrize("attack", sorted(attacks()))
def test_attacks_reach_neither_analysis_nor_an_epoch(spark_engine: SparkEngine, attack: str, tmp_path: Path) -> None:
    file = tmp_path / "made"
    text = attack.replace("{file}", str(file)).replace("{}", f"touch {file}; cat")

    with pytest.raises(AnalysisError) as caught:
        spark_engine.analyze(VIEWS, text)
    with pytest.raises(EngineError):
        spark_engine.run(EpochRequest("attacked", text, ArrowScan(ROWS), "us"))

    assert caught.value.message
    # Spark itself says what its parser does not read.
    assert caught.value.condition == REFUSED or re.match("PARSE_|[A-Z_.]+", caught.value.condition)
    assert list(tmp_path.iterdir()) == []
    partitions = spark_engine._base.newSession().conf.get("spark.sql.shuffle.partitions")
    assert partitions != "77"


def test_a_refusal_says_what_and_where(spark_engine: SparkEngine) -> None:
    with pytest.raises(AnalysisError) as caught:
        spark_engine.analyze(VIEWS, "SELECT ms,\n  upper(reflect('a', 'b')) AS x FROM input")
    error = caught.value
    assert error.message == "reflect cannot be called: it calls Java methods"
    assert (error.condition, error.line, error.column, error.fragment) == (REFUSED, 2, 9, "reflect")


@pytest.mark.parametrize("kind", ["INT, evil INT", "INT) AS a, reflect('a', 'b', CAST(1 AS INT", "INT FROM x", "nope"])
def test_a_columns_type_is_one_type(spark_engine: SparkEngine, kind: str) -> None:
    with pytest.raises(AnalysisError):
        spark_engine.analyze({"input": (Field("a", kind),)}, "SELECT a FROM input")


@pytest.mark.parametrize(
    "text", ["reflect('a', 'b')", "1 AS x, 2", "(SELECT 1)", "CAST(1 AS INT) AS x, reflect('a', 'b')"]
)
def test_expressions_of_a_generator_pass_the_wall_too(spark_engine: SparkEngine, text: str) -> None:
    with pytest.raises(EngineError):
        spark_engine.run(EpochRequest("attacked", "SELECT * FROM input", RangeScan(0, 1, (("a", text),)), "us"))


def test_variables_of_the_agent_are_not_told(spark_engine: SparkEngine) -> None:
    result = spark_engine.run(EpochRequest("q", "SELECT '${env:PATH}' AS a FROM input", ArrowScan(ROWS), "us"))
    assert result.table.to_pylist() == [{"a": "${env:PATH}"}]


async def test_a_stranger_who_asks_the_agent_is_refused(spark_engine: SparkEngine, tmp_path: Path) -> None:
    file = tmp_path / "made"
    statements = [
        f"SELECT TRANSFORM(page) USING 'touch {file}; cat' AS y FROM input",
        f"SET a = {file}",
        "SELECT 1 AS a",
    ]
    columns = [common_pb2.Column(name=c.name, type=c.type) for c in VIEWS["input"]]
    view = exchange_pb2.AnalyzeView(name="input", columns=columns)
    async with AsyncExitStack() as stack:
        store = ChannelStore(tmp_path / "channels")
        address = await start_exchange("127.0.0.1:0", store, spark_engine, stack)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
        stub = exchange_pb2_grpc.ExchangeServiceStub(channel)
        answer = await stub.Analyze(exchange_pb2.AnalyzeRequest(views=[view], statements=statements))

    assert [analysis.error.code for analysis in answer.analyses] == [REFUSED, REFUSED, ""]
    assert answer.analyses[0].error.message == "ScriptTransformation is not possible"
    assert not file.exists()


class TestTables:
    def test_every_function_of_spark_was_looked_at(self, spark: SparkSession) -> None:
        functions = {row.function for row in spark.sql("SHOW FUNCTIONS").collect()}
        assert NAMES | REASONS.keys() == functions | BY_SYNTAX

    @pytest.mark.parametrize("text", [*UNCHANGED, *CHANGED, *CHANGED.values()])
    def test_what_the_planner_renders_passes(self, spark: SparkSession, text: str) -> None:
        assert statements.plan(spark, f"SELECT {text} FROM s", Names(frozenset(("s",))))

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT INTERVAL '1' DAY, INTERVAL '3' MONTHS, INTERVAL '1-2' YEAR TO MONTH, X'1F', DATE '2020-01-01'",
            "SELECT 1Y, 1S, 1L, 1.5F, 1.5D, 1.5BD, 'a' 'b', r'\\n', -1, +1, NULL, true, 1e3, .5",
            "SELECT a ILIKE 'c', a NOT LIKE ANY ('x'), a LIKE ALL ('x'), a NOT LIKE ALL ('x'), a IS TRUE FROM s",
            "SELECT a << 1, a >> 1, a >>> 1, OVERLAY(a PLACING 'b' FROM 1 FOR 2), a[0], a.b, (a, b) FROM s",
            "SELECT sum(a) OVER (PARTITION BY b ORDER BY c DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM s",
            "SELECT sum(a) OVER (ORDER BY b RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM s",
            "SELECT posexplode(a) AS (b, c), first(a) IGNORE NULLS, * EXCEPT (a), s.*, count(DISTINCT a, b) FROM s",
            "WITH d AS (SELECT 1 AS a) SELECT DISTINCT a FROM d UNION ALL SELECT a FROM s ORDER BY 1 LIMIT 2 OFFSET 1",
            "SELECT a FROM (SELECT b FROM s) AS d(a) LEFT JOIN s AS t USING (a) JOIN s AS u ON a = b GROUP BY 1",
            "SELECT a FROM s LATERAL VIEW OUTER explode(x) y AS z WHERE a > 1 GROUP BY a HAVING a <= 1",
            "SELECT CAST(a AS STRUCT<x: INT, y: MAP<STRING, ARRAY<BINARY>>>), CAST(a AS TIMESTAMP_NTZ) FROM s",
            "SELECT CAST(a AS VARCHAR(3)), CAST(a AS INTERVAL DAY TO SECOND), TRY_CAST(a AS VARIANT) FROM s",
        ],
    )
    def test_syntax_that_is_possible_passes(self, spark: SparkSession, text: str) -> None:
        assert statements.plan(spark, text, Names(frozenset(("s",))))


class TestWriting:
    """Spark reads the very names and texts that are written, as one name and one text."""

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(
        name=st.text(min_size=1) | st.from_regex(r"[`.\s/*\-;'\"${}\\]{1,8}"),
        text=st.text() | st.from_regex(r"[\\'\"u0n]*"),
    )
    def test_any_name_and_text(self, spark: SparkSession, name: str, text: str) -> None:
        column = exp.alias_(exp.Literal.string(text), name_node(name))
        written = render(exp.select(column, exp.column(name_node(name), table=name_node(name))).from_("s"))
        for sql in (
            written,
            f"SELECT {quoted_text(text)} AS {quoted_name(name)}, {quoted_name(name)}.{quoted_name(name)} FROM s",
        ):
            literal, attribute = read(spark, sql)
            assert literal == (name, text)
            assert attribute == [name, name]

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(
        quote=st.sampled_from("'\""),
        parts=st.lists(
            st.sampled_from(["\\", "\\\\", "'", '"', "''", '""', "u0041", "101", "n", "%", "_", "Z", "x", "\n"])
        ),
    )
    def test_any_string_is_read_as_spark_reads_it(self, spark: SparkSession, quote: str, parts: list[str]) -> None:
        written = quote + "".join(parts) + quote
        try:
            plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(f"SELECT {written} AS a")
        except PySparkException:
            return
        items = plan.projectList()
        if items.size() == 1 and not re.search(rf"(?<!\\)(\\\\)*{quote}", written[1:-1].replace(quote * 2, "")):
            assert text_of(written) in (None, items.apply(0).child().value().toString())

    def test_keywords_of_spark_are_names(self, spark: SparkSession) -> None:
        for row in spark.sql("SELECT keyword FROM sql_keywords()").collect():
            node = exp.column(name_node(row.keyword.lower()), table=name_node("s"))
            sql = render(exp.select(exp.alias_(node, name_node(row.keyword.lower()))).from_(exp.to_table("s")))
            plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)
            assert plan.projectList().apply(0).name() == row.keyword.lower()


def read(session: SparkSession, sql: str) -> tuple[tuple[str, str], list[str]]:
    """Name and text of the first column, and the parts of the name that is the second."""
    items = session._jsparkSession.sessionState().sqlParser().parsePlan(sql).projectList()
    assert items.size() == 2
    first, second = items.apply(0), items.apply(1)
    parts = second.nameParts()
    return (first.name(), first.child().value().toString()), [parts.apply(i) for i in range(parts.size())]
