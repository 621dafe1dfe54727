"""Epochs through kept plans give what epochs that are planned anew give, whatever ran before them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from planner.graph.ids import VertexId
from planner.graph.plan import Analysis, DraftPlan, Stage
from planner.planning import Planning, planned_with
from planner.relations.catalog import Column
from planner.values.names import DUE_COLUMN, INPUT_VIEW, LIFE_COLUMN, NEW_COLUMN, ROW_COLUMN
from planner.values.stages import StageKind
from site_agent.base.errors import EngineError
from site_agent.engine import Admission, ArrowScan, EpochRequest, EpochResult, Field, PythonFunction, RangeScan
from site_agent.engine.jvm.jar import find_jar
from site_agent.engine.spark import SparkEngine
from site_agent.state.segments import without_bins
from tests.e2e.dataset import ORDERS, START, Dataset, order
from tests.e2e.queries import CASES, Case
from tests.integration.test_derive import rows_of as numbers
from tests.integration.test_derive import sent, typed
from tests.integration.test_functions import CELL
from tests.needs import Lack, Need, unless
from tests.seeds import random_of, several
from tests.unit.planner.build import catalog_of, draft_of, select_of
from tests.unit.planner.sharing.build import residual_sql, vertices
from tests.unit.planner.sharing.test_containment import CONTAINED

pytestmark = [
    pytest.mark.spark,
    unless(Lack(Need.MACHINE, "a Java compiler, for scripts/build_jar") if find_jar() is None else None),
]

CATALOG = catalog_of(Dataset(Path("/data")).ddl())
ROWS = (0, 1, 200, 500)
TABLES = {
    "products": pa.table(
        {
            "product": [f"p{n}" for n in range(8)],
            "name": [f"Product {n}" for n in range(8)],
            "category": ["ABC"[n % 3] for n in range(8)],
        }
    ),
    "recalls": pa.table({"product": pa.array([], pa.string()), "reason": pa.array([], pa.string())}),
    "stock": pa.table({"product": [f"p{n}" for n in range(10)], "amount": pa.array(range(10), pa.int32())}),
}


@pytest.fixture(scope="module")
def planning_engine(spark_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkEngine:
    """Plans every epoch anew."""
    engine = SparkEngine(spark_session, scratch=tmp_path_factory.mktemp("anew"))
    engine.keeps_plans = False
    return engine


def typed_draft(engine: SparkEngine, sql: str) -> DraftPlan:
    def ask(analysis: Analysis) -> tuple[Column, ...]:
        views = {name: [Field(c.name, c.type) for c in columns] for name, columns in analysis.views.items()}
        return tuple(Column(f.name, f.type) for f in engine.analyze(views, analysis.statement, ()))

    return planned_with(Planning.of(select_of(sql), CATALOG), ask)


def orders(rng: random.Random, count: int) -> pa.Table:
    rows = [order(rng, n, rng.randrange(60_000_000)) for n in range(count)]
    return pa.Table.from_pylist(rows, ORDERS)


class Pair:
    """A task in both engines."""

    def __init__(self, kept: SparkEngine, anew: SparkEngine, task: str) -> None:
        self.engines = (kept, anew)
        self.task = task

    def put(self, view: str, table: pa.Table) -> None:
        for engine in self.engines:
            engine.put_table(self.task, view, table)

    def run(
        self,
        sql: str,
        rows: Mapping[str, pa.Table],
        tables: tuple[str, ...],
        admission: Admission | None,
        functions: tuple[PythonFunction, ...] = (),
    ) -> pa.Table:
        views = {view: ArrowScan(table) for view, table in rows.items()}
        scan = views.pop(INPUT_VIEW)
        request = EpochRequest(self.task, sql, scan, "asia", admission, tables, views, functions=functions)
        kept, anew = (engine.run(request) for engine in self.engines)
        assert kept.table.schema == anew.table.schema
        assert figures(kept) == figures(anew)
        assert in_order(kept.table, sql) == in_order(anew.table, sql)
        return kept.table

    def drop(self) -> None:
        for engine in self.engines:
            engine.drop_task(self.task)


def figures(result: EpochResult) -> tuple[Any, ...]:
    # Operators are not compared: while Spark plans few rows anew it computes them, and may leave operators out.
    return result.rows_read, result.rows_late, result.max_event_time_us, result.rows_malformed


def in_order(table: pa.Table, sql: str) -> list[str]:
    # Sketches of values are random; what is estimated from them is compared where they are merged.
    plain = [f.name for f in table.schema if not pa.types.is_binary(f.type)]
    return sorted(map(repr, table.select(plain).to_pylist()))


def run_case(pair: Pair, draft: DraftPlan, rng: random.Random) -> None:
    sent: dict[str, list[pa.Table]] = {}
    for stage in draft.stages:
        copies = put_copies(pair, draft, stage)
        if stage.kind is StageKind.SOURCE:
            relation = CATALOG.relations[(stage.relation or "").lower()]
            for _ in range(several(2, 4)):
                rows = orders(rng, rng.choice(ROWS)).select([c.name for c in relation.columns])
                watermark_us = rng.choice([None, int(START.timestamp()) * 1_000_000 + rng.randrange(30_000_000)])
                made = pair.run(stage.sql, {INPUT_VIEW: rows}, copies, Admission("ts", watermark_us))
                sent.setdefault(stage.id, []).append(without_bins(made))
        elif stage.kind is StageKind.MERGE:
            arriving: dict[str, list[str]] = {}
            for item in stage.inputs:
                if item.stage in sent:
                    arriving.setdefault(item.view, []).append(item.stage)
            for _ in range(several(2, 3)):
                rows = {v: some(rng, [t for s in stages for t in sent[s]]) for v, stages in arriving.items()}
                made = pair.run(stage.sql, with_flags(rng, stage, rows), copies, None)
                sent.setdefault(stage.id, []).append(without_bins(made))
                for view, combine_sql in combines_of(stage).items():
                    pair.run(combine_sql, {INPUT_VIEW: rows[view]}, (), None)


def with_flags(rng: random.Random, stage: Stage, rows: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    """The rows as an agent hands them to a MERGE: those of pairs and totals have flags, here drawn ones."""
    pairs = stage.merge.pairs if stage.merge is not None else None
    if stage.merge is not None and (stage.merge.totals is not None or stage.merge.neighbours is not None):
        table = rows[INPUT_VIEW]
        table = table.append_column(NEW_COLUMN, pa.array(rng.choices((False, True), k=table.num_rows), pa.bool_()))
        if stage.merge.neighbours is not None:
            return {**rows, INPUT_VIEW: table}
        life = pa.array(rng.choices((0, 1), k=table.num_rows), pa.int64())
        return {**rows, INPUT_VIEW: table.append_column(LIFE_COLUMN, life)}
    if pairs is None:
        return rows
    flagged = dict(rows)
    for side in (pairs.first, pairs.second):
        table = rows[side.view]
        if pairs.newest:
            flagged[side.view] = table.append_column(ROW_COLUMN, pa.array(range(table.num_rows), pa.int64()))
            continue
        for name in (NEW_COLUMN, DUE_COLUMN):
            table = table.append_column(name, pa.array(rng.choices((False, True), k=table.num_rows), pa.bool_()))
        flagged[side.view] = table
    return flagged


def combines_of(stage: Stage) -> dict[str, str]:
    """By view of a MERGE whose rows are partials: what makes fewer of them, there and in a COMBINE."""
    assert stage.merge is not None
    found = {view.view: view.combine_sql for view in stage.merge.views} or {INPUT_VIEW: stage.merge.combine_sql}
    return {view: sql for view, sql in found.items() if sql}


def some(rng: random.Random, tables: list[pa.Table]) -> pa.Table:
    picked = rng.sample(tables, rng.randrange(1, len(tables) + 1))
    return pa.concat_tables(picked, promote_options="permissive")


def put_copies(pair: Pair, draft: DraftPlan, stage: Stage) -> tuple[str, ...]:
    views = []
    for item in stage.inputs:
        copied = draft.stage(item.stage)
        if copied.kind is StageKind.TABLE:
            rows = {INPUT_VIEW: TABLES[(copied.relation or "").lower()]}
            pair.put(item.view, pair.run(copied.sql, rows, (), None))
            views.append(item.view)
    return tuple(views)


@pytest.mark.seeded
@pytest.mark.parametrize(
    "case", [case for case in CASES if not draft_of(case.sql, CATALOG).batch], ids=lambda case: case.name
)
def test_random_epochs_are_the_same_through_kept_and_new_plans(
    spark_engine: SparkEngine, planning_engine: SparkEngine, case: Case
) -> None:
    draft = typed_draft(planning_engine, case.sql)
    pair = Pair(spark_engine, planning_engine, f"q.{case.name}")
    try:
        run_case(pair, draft, random_of(case.name))
    finally:
        pair.drop()


@pytest.mark.parametrize(("wanted", "offered"), [case[:2] for case in CONTAINED], ids=[case[2] for case in CONTAINED])
def test_random_epochs_of_derived_tasks(
    spark_engine: SparkEngine, planning_engine: SparkEngine, wanted: str, offered: str
) -> None:
    pair = Pair(spark_engine, planning_engine, "q.derived")
    draft, other = typed(planning_engine, wanted), typed(planning_engine, offered)
    sql = residual_sql(vertices(draft)[VertexId("s1")], vertices(other)[VertexId("s1")])
    assert sql is not None
    try:
        for seed, count in enumerate((60, 0, 1, 200)):
            made = pair.run(other.stage("s1").sql, {INPUT_VIEW: numbers(seed, count)}, (), None)
            pair.run(sql, {INPUT_VIEW: sent(made)}, (), None)
    finally:
        pair.drop()


def test_random_epochs_that_call_python_functions(spark_engine: SparkEngine, planning_engine: SparkEngine) -> None:
    """They run in processes of their own, which outlive an epoch."""
    pair = Pair(spark_engine, planning_engine, "q.functions")
    sql = "SELECT cell__0123456789ab(lat, 20) AS c, count(*) AS n FROM input GROUP BY 1"
    rng = random.Random(5)
    try:
        for count in (5, 0, 300, 1):
            lat = pa.array([rng.choice((None, *range(-80, 80, 7))) for _ in range(count)], pa.float64())
            pair.run(sql, {INPUT_VIEW: pa.table({"lat": lat})}, (), None, (CELL,))
        assert plans_of(spark_engine, "q.functions") == [True]
    finally:
        pair.drop()


def rows_of(*values: int) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64())})


def one(engine: SparkEngine, sql: str, rows: pa.Table, task: str = "q.kept", **others: pa.Table) -> list[Any]:
    views = {view: ArrowScan(table) for view, table in others.items()}
    result = engine.run(EpochRequest(task, sql, ArrowScan(rows), "us", views=views))
    return sorted(result.table.to_pylist(), key=repr)


@pytest.fixture
def kept_engine(spark_engine: SparkEngine) -> Iterator[SparkEngine]:
    yield spark_engine
    spark_engine.drop_task("q.kept")


def plans_of(engine: SparkEngine, task: str = "q.kept") -> list[bool]:
    """Whether each statement of the task runs by a kept plan, in the order of their first epochs."""
    kept = engine._tasks[task].kept
    assert kept is not None
    return [plan is not None for plan in kept._plans.values()]


class TestPlans:
    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT DISTINCT k FROM input",
            "SELECT a.k FROM input a JOIN input b ON a.k = b.k",
            "SELECT k, rank() OVER (ORDER BY k) AS r FROM input",
            "SELECT k FROM input UNION ALL SELECT k + 1 FROM input",
        ],
    )
    def test_an_exchange_does_not_keep_the_rows_of_the_first_epoch(self, kept_engine: SparkEngine, sql: str) -> None:
        first, second = one(kept_engine, sql, rows_of(1, 1, 2)), one(kept_engine, sql, rows_of(7))
        assert first != second
        assert {row["k"] for row in second} <= {7, 8}

    def test_a_plan_that_broadcasts_rows_of_the_epoch_is_not_kept(self, kept_engine: SparkEngine) -> None:
        sql = "SELECT a.k, v.k AS other FROM input a LEFT JOIN v ON a.k < v.k"
        for limit in (2, 9, 3):
            found = one(kept_engine, sql, rows_of(1, 5), v=rows_of(limit))
            assert found == [{"k": k, "other": limit if k < limit else None} for k in (1, 5)]
        assert plans_of(kept_engine) == [False]

    def test_another_table_copy_is_another_plan(self, kept_engine: SparkEngine) -> None:
        sql = "SELECT input.k, t.n FROM input JOIN t ON input.k = t.k"
        for n in (1, 2):
            kept_engine.put_table("q.kept", "t", pa.table({"k": [1], "n": [n]}))
            request = EpochRequest("q.kept", sql, ArrowScan(rows_of(1)), "us", tables=("t",))
            assert kept_engine.run(request).table.to_pylist() == [{"k": 1, "n": n}]

    def test_other_columns_are_another_plan(self, kept_engine: SparkEngine) -> None:
        sql = "SELECT * FROM input"
        assert one(kept_engine, sql, rows_of(1)) == [{"k": 1, "site": "us"}]
        assert one(kept_engine, sql, pa.table({"k": ["x"]})) == [{"k": "x", "site": "us"}]
        assert plans_of(kept_engine) == [True, True]

    def test_an_epoch_that_fails_leaves_nothing_behind(self, kept_engine: SparkEngine) -> None:
        sql = "SELECT 10 DIV k AS q FROM input"
        assert one(kept_engine, sql, rows_of(5)) == [{"q": 2}]
        with pytest.raises(EngineError, match=r"Division by zero.*\[DIVIDE_BY_ZERO\]"):
            one(kept_engine, sql, rows_of(0))
        assert one(kept_engine, sql, rows_of(2)) == [{"q": 5}]

    def test_results_outlive_the_epochs_after_them(self, kept_engine: SparkEngine) -> None:
        """They are mapped files: one that is written again would end the process."""
        sql = "SELECT k, repeat('x', 1000) AS long FROM input"
        results = [kept_engine.run(EpochRequest("q.kept", sql, ArrowScan(rows_of(n)), "us")).table for n in range(20)]
        assert [table["k"].to_pylist() for table in results] == [[n] for n in range(20)]
        kept_engine.drop_task("q.kept")
        assert {len(table["long"][0].as_py()) for table in results} == {1000}

    def test_rows_in_several_batches_and_none(self, kept_engine: SparkEngine) -> None:
        sql = "SELECT k, array(k, NULL) AS l, named_struct('a', CAST(k AS STRING)) AS s FROM input"
        for count in (70_000, 0, 3):
            found = one(kept_engine, sql, rows_of(*range(count)))
            assert [row["k"] for row in sorted(found, key=lambda row: row["k"])] == list(range(count))

    def test_threads_of_several_tasks_run_side_by_side(self, spark_engine: SparkEngine) -> None:
        sql = "SELECT sum(k) AS s FROM input"

        def epochs(task: int) -> list[int]:
            name = f"q.kept.{task}"
            found = [one(spark_engine, sql, rows_of(task, n), name)[0]["s"] for n in range(25)]
            spark_engine.drop_task(name)
            return found

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(epochs, range(4))) == [[task + n for n in range(25)] for task in range(4)]

    def test_the_watermark_of_generated_rows_moves(self, kept_engine: SparkEngine) -> None:
        columns = (("id", "id"), ("ts", "timestamp_micros(id)"))
        counted = []
        for watermark_us in (None, 4, 9, 2):
            request = EpochRequest(
                "q.kept", "SELECT id FROM input", RangeScan(0, 10, columns), "us", Admission("ts", watermark_us)
            )
            result = kept_engine.run(request)
            counted.append((result.rows_read, result.rows_late, result.max_event_time_us, result.table.num_rows))
        assert counted == [(10, 0, 9, 10), (10, 4, 9, 6), (10, 9, 9, 1), (10, 2, 9, 8)]
        assert plans_of(kept_engine) == [True]


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("org.apache.spark", "TaskContextImpl"),
        ("org.apache.spark.memory", "TaskMemoryManager"),
        ("org.apache.spark.sql.execution", "CoalesceExec"),
        ("org.apache.spark.sql.execution", "CollectMetricsExec"),
        ("org.apache.spark.sql.execution.arrow", "ArrowWriter"),
        ("org.apache.spark.sql.execution.datasources", "FilePartition"),
        ("org.apache.spark.sql.execution.datasources", "FileScanRDD"),
        ("org.apache.spark.sql.execution.datasources", "PartitionedFile"),
        ("org.apache.spark.sql.execution.exchange", "BroadcastExchangeLike"),
        ("org.apache.spark.sql.execution.exchange", "ShuffleExchangeExec"),
        ("org.apache.spark.sql.catalyst.expressions", "UnsafeArrayData"),
        ("org.apache.spark.sql.classic", "ExpressionUtils"),
        ("org.apache.spark.sql.util", "ArrowUtils"),
        ("org.apache.spark.sql.vectorized", "ArrowColumnVector"),
        ("org.apache.spark.util", "AccumulatorContext"),
    ],
)
def test_spark_has_the_internal_classes_that_kept_plans_use(
    spark_session: SparkSession, package: str, name: str
) -> None:
    spark_session._jvm.java.lang.Class.forName(f"{package}.{name}")
