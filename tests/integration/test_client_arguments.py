"""Arguments of `spark.sql` in the text: Spark reads the parameters, and means by the values, what Selat does."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark.sql.connect.functions as sf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.connect import proto as pb
from pyspark.sql.connect.plan import SQL

from contract.parameters import ParameterError, bound
from master.connect.arguments import with_values
from site_agent.engine.client.plans import ClientSession
from site_agent.engine.client_plans import ClientPlans
from site_agent.engine.functions import DEFAULT_LIMITS
from site_agent.engine.spark import SparkEngine
from site_agent.engine.sql import statements
from site_agent.engine.sql.statements import Names
from tests.integration.test_client_plans import DATA, planned, query_of, rows_of, run

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def plans(spark_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ClientPlans:
    return ClientPlans(spark_session, scratch=tmp_path_factory.mktemp("plans"), functions=DEFAULT_LIMITS)


@pytest.fixture(scope="module")
def plain(spark_session: SparkSession) -> SparkSession:
    """A session that has the whole tables."""
    session = spark_session.newSession()
    for name, rows in DATA.items():
        session.createDataFrame(rows).createOrReplaceTempView(name)
    return session


def relation(text: str, args: Any) -> pb.Relation:
    positional = [sf.lit(value) for value in args] if isinstance(args, list) else []
    named = {name: sf.lit(value) for name, value in args.items()} if isinstance(args, dict) else {}
    client: Any = None
    return SQL(text, positional, named).plan(client)


def sparks(plain: SparkSession, message: pb.Relation) -> pa.Table:
    """Return what Spark Connect's own planner makes of the text and its arguments."""
    client: Any = ClientSession(plain, Names())
    return statements.rows(plain, client._plan(message)).toArrow()


QUERIES: dict[str, tuple[str, Any]] = {
    "names": ("SELECT a, b FROM t WHERE a >= :low AND s = :s", {"low": 1, "s": "x"}),
    "positions": ("SELECT count(*) AS n, max(b) AS most FROM t WHERE b BETWEEN ? AND ?", [10, 50]),
    "one name twice": ("SELECT :a + a AS sum FROM t WHERE a < :a", {"a": 3, "unused": None}),
    "more than needed": ("SELECT a FROM u WHERE d > ?", [Decimal("0.7"), 2, 3]),
    "limit and null": ("SELECT a, :none AS none FROM u ORDER BY a LIMIT :n", {"none": None, "n": 2}),
    "collections": ("SELECT a FROM t WHERE array_contains(?, s) AND a IN (?, ?)", [["x", "y"], 1, 3]),
    "a join and a window": (
        "SELECT t.a, row_number() OVER (PARTITION BY t.a ORDER BY b) + :more AS place FROM t JOIN u USING (a)"
        " WHERE d <> :d",
        {"more": 2**40, "d": 0.25},
    ),
    "texts around": ("SELECT ':s', '?', r'\\', :s AS s, \"it''s :s\" /* :s */ FROM u -- :s", {"s": "'; \\"}),
}


@pytest.mark.parametrize("name", QUERIES)
def test_queries_are_equal_to_sparks(
    name: str, spark_engine: SparkEngine, plans: ClientPlans, plain: SparkSession
) -> None:
    message = relation(*QUERIES[name])
    found = run(spark_engine, planned(spark_engine, plans, query_of(with_values(message))))
    expected = sparks(plain, message)
    assert rows_of(found) == rows_of(expected)
    assert found.schema.types == expected.schema.types


VALUES: list[Any] = [
    *(None, True, False, 0, 5, -5, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)),
    *(1.5, -0.0, 5e-324, 1.7e308, float("nan"), float("inf"), float("-inf")),
    *(Decimal("1.50"), Decimal("-0.001"), Decimal("12345678901234567890.12"), Decimal("1E+3")),
    *("", "it's", "\\", "\\'", "''", "${env:PATH}", "a\nb\t\r", "é😀\u2028", "%_", "\\u0041"),
    *("?", ":x", "--", "/*", "a\0b"),
    *(b"", b"\x00\xff'"),
    *(date(1, 1, 1), date(9999, 12, 31), date(2026, 2, 28)),
    *(datetime(1900, 1, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, 0, 123456, tzinfo=UTC)),
    *(timedelta(0), timedelta(days=-3, seconds=5, microseconds=7), timedelta(days=106751)),
    *([1, 2], [["x"], ["y"]]),
    sf.create_map(sf.lit("k"), sf.lit(1)),
    sf.struct(sf.lit(1), sf.lit("x").alias("name")),
    sf.named_struct(sf.lit("a"), sf.array(sf.lit(1))),
    sf.map_from_arrays(sf.array(sf.lit(1)), sf.array(sf.lit("x"))),
]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_values_and_types_are_equal_to_sparks(zone: str, plans: ClientPlans, spark_session: SparkSession) -> None:
    text = f"SELECT {', '.join('?' for _ in VALUES)}"
    message = relation(text, VALUES)
    query = query_of(with_values(message), **{"session.timeZone": zone})
    found = plans.run_plan(query.plan, "values")
    session = spark_session.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    expected = sparks(session, message.__class__.FromString(message.SerializeToString()))
    for value, ours, theirs in zip(VALUES, found.columns, expected.columns, strict=True):
        assert (ours.type, repr(ours.to_pylist())) == (theirs.type, repr(theirs.to_pylist())), value


FRAGMENTS = (
    *("'", "''", '"', "`", "\\", "\\'", "r'", "R'", 'r"', "x'", "1", "1.0", ".", "e", "a", "_", "é", "\u0301", "²"),
    *("?", ":x", ":`x`", ":", "::", "--", "/*", "*/", "/*+", "$", "$$", "$a$", "\n", "\r", "\\\n", " ", "-", "(", ")"),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
def test_sparks_lexer_finds_the_same_question_marks(text: str, spark_session: SparkSession) -> None:
    """A text that is refused may be anything; in all others, a literal stands where Spark saw a parameter."""
    try:
        made = bound(text, ["§"] * 20, {"x": "¶"})
    except ParameterError:
        return
    jvm: Any = spark_session._jvm
    parser = jvm.org.apache.spark.sql.catalyst.parser
    chars = jvm.org.antlr.v4.runtime.CharStreams.fromString(text)
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(chars))
    lexer.removeErrorListeners()
    marks = [token for token in lexer.getAllTokens() if token.getText() == "?"]
    assert made.count("§") == len(marks), text


def test_hostile_values_stay_values(plans: ClientPlans, tmp_path: Path) -> None:
    hostile = "' UNION SELECT reflect('java.lang.System', 'getenv') -- \\' \" ` */ /* ; $$ r'"
    message = with_values(relation("SELECT ? AS v, r'\\' AS raw, 'it''s' AS it, ? AS w", [hostile, hostile[::-1]]))
    (row,) = plans.run_plan(query_of(message).plan, "hostile").to_pylist()
    assert row == {"v": hostile, "raw": "\\", "it": "it's", "w": hostile[::-1]}
