"""Plans that clients of Spark made: what they name, what is asked about them, and the stages that run them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from master.store.codec import dumps, loads
from planner.graph.clientplan import ClientPlan, ClientQuery, ClientView
from planner.graph.plan import BatchPlan, DraftPlan, Split, client_site
from planner.graph.whole import Scanned
from planner.place.batch import place_batch
from planner.planning import Part, Planning, Refusal
from planner.relations.catalog import Column
from planner.values.errors import InvalidExpressionError, PlannerError, UnknownRelationError, UnsupportedSqlError
from planner.values.scans import SparkExpression, TableScan
from planner.values.splits import FilePart
from planner.values.topology import Link, Site, Topology
from tests.unit.planner.build import catalog_of

DECLARED = "CREATE TABLE {} (a INT, b INT) WITH ('connector' = 'other') AT us AT eu;"
CATALOG = catalog_of(
    DECLARED.format("t")
    + DECLARED.format("u")
    + "CREATE VIEW seen AS SELECT a FROM t;"
    + "CREATE STREAM clicks (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) "
    "WITH ('connector' = 'push') AT us;"
)
IS_ONE = SparkExpression(
    "EqualTo",
    "BOOLEAN",
    None,
    (SparkExpression("AttributeReference", "INT", "a"), SparkExpression("Literal", "INT", "1")),
    sql="a = 1",
)
COLUMNS = (Column("a", "INT"),)


def query(
    *names: str, texts: tuple[str, ...] = (), site: str = "", settings: Mapping[str, str] | None = None
) -> ClientQuery:
    return ClientQuery(ClientPlan("cGxhbg==", settings=settings or {}, site=site), names, texts)


def settled(asked: ClientQuery, *scans: TableScan) -> DraftPlan:
    planning = Planning.of_client(asked, CATALOG)
    while questions := planning.questions:
        for question in questions:
            answer = Scanned(COLUMNS, scans) if question.part is Part.TEXT else COLUMNS
            planning = planning.answered(question, answer)
    return planning.result()


def test_each_table_has_a_map_and_the_plan_runs_over_what_they_send() -> None:
    draft = settled(query("t", "u"), TableScan("t", ("a",), (IS_ONE,)), TableScan("u", ("b",)))
    first, second, reduce = draft.stages
    assert (first.relation, second.relation) == ("t", "u")
    assert first.sql == "SELECT a FROM input WHERE input.a = 1"
    assert reduce.sql == ""
    assert reduce.client is not None
    views = {view.name: view.sql for view in reduce.client.views}
    assert views == {
        "t": "SELECT a, CAST(NULL AS INT) AS b FROM input",
        "u": "SELECT CAST(NULL AS INT) AS a, b FROM input2",
    }
    assert draft.columns == COLUMNS
    assert [text.relations for text in draft.texts] == [("t", "u")]


def test_spark_is_asked_once_about_the_plan_and_what_it_names() -> None:
    planning = Planning.of_client(query(texts=("SELECT * FROM seen",)), CATALOG)
    view, *_ = planning.questions
    planning = planning.answered(view, COLUMNS)
    (question,) = planning.questions
    assert question.analysis.scans
    assert question.analysis.statement == ""
    assert question.analysis.client is not None
    assert question.analysis.client.views == (ClientView("seen", "SELECT a FROM t", columns=("a",)),)
    assert list(question.analysis.views) == ["t"]


def test_by_another_clock_all_rows_are_sent() -> None:
    draft = settled(
        query("t", settings={"spark.sql.session.timeZone": "Asia/Tokyo"}), TableScan("t", ("a",), (IS_ONE,))
    )
    assert draft.stages[0].sql == "SELECT a FROM input"


def test_without_a_table_there_is_nothing_to_plan() -> None:
    assert Planning.of_client(query(texts=("SELECT 1",)), CATALOG).reads_nothing
    assert not Planning.of_client(query("t"), CATALOG).reads_nothing


def test_names_beside_a_text_hide_tables() -> None:
    asked = ClientQuery(ClientPlan(""), texts=("SELECT * FROM t, u",), local=frozenset(("u",)))
    assert [text.relations for text in Planning.of_client(asked, CATALOG).draft.texts] == [("t",)]


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        (query("nowhere"), UnknownRelationError, "nowhere"),
        (query("clicks"), UnsupportedSqlError, "clicks is a stream"),
        (query(texts=("SELECT * FROM clicks",)), UnsupportedSqlError, "clicks is a stream"),
        (query(texts=("SELECT rand() FROM t",)), UnsupportedSqlError, "rand"),
        (query(texts=("SELECT * FROM csv.`x`",)), PlannerError, "database"),
    ],
)
def test_what_is_refused(asked: ClientQuery, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        Planning.of_client(asked, CATALOG)


def test_a_refusal_of_sparks_keeps_its_condition() -> None:
    planning = Planning.of_client(query("t"), CATALOG)
    (question,) = planning.questions
    with pytest.raises(InvalidExpressionError) as raised:
        planning.answered(question, Refusal("no column", condition="UNRESOLVED_COLUMN"))
    assert raised.value.ids == {"condition": "UNRESOLVED_COLUMN"}


def test_a_site_and_what_is_stored() -> None:
    links = {(a, b): Link(a, b, 1e6, timedelta(0)) for a, b in (("us", "eu"), ("eu", "us"))}
    topology = Topology({name: Site(name, slots=1) for name in ("us", "eu")}, links, gateway="us")
    splits = [Split(site, (FilePart("f", 0, 1),), size) for site, size in (("us", 900), ("eu", 1))]
    alive = frozenset(("us", "eu"))
    free = place_batch(settled(query("t"), TableScan("t", ("a",))), topology, splits, alive=alive)
    assert (client_site(free), *free.sites.values()) == ("", "us")
    asked = query("t", site="eu", settings={"spark.sql.ansi.enabled": "false"})
    plan = place_batch(settled(asked, TableScan("t", ("a",))), topology, splits, alive=alive)
    assert (client_site(plan), *plan.sites.values()) == ("eu", "eu")
    assert loads(BatchPlan, dumps(plan)) == plan
