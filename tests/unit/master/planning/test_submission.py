"""From SELECT to a plan, with a stand-in for Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from master.analysis.spark import RefusedStatementError
from master.base.errors import CatalogChangedError
from master.planning.submission import PlanningParts, QueryPlanner
from master.relations.catalog import CatalogManager
from master.sites.registry import SiteRegistry
from master.sites.statistics import MeasuredRates
from master.sites.status import Sites
from master.store.sqlite import SqliteStore
from planner.graph.clientplan import ClientPlan
from planner.graph.plan import BatchPlan, PhysicalPlan, Split
from planner.graph.whole import Scanned
from planner.relations.catalog import Binding, Column, Function, Relation
from planner.sql.script import parse_script
from planner.sql.statements import SelectQuery
from planner.values.errors import InvalidExpressionError, PlacementError
from planner.values.links import LinkFigures, Pair
from planner.values.ranges import AllOf, Comparison, Condition
from planner.values.scans import TableScan
from planner.values.splits import FilePart
from planner.wan.estimate import LinkRecord, fold_bandwidth
from planner.wan.samples import BandwidthSample, Method
from planner.wan.snapshot import snapshot
from tests.fakes import VirtualClock
from tests.unit.master.build import CLICKS, PAGES, START, TOPOLOGY, site_record

FILTER = "SELECT user_id, page FROM clicks WHERE user_id > 5"
SUM = "SELECT window(ts, '10 seconds') AS w, sum(user_id) AS total FROM clicks GROUP BY window(ts, '10 seconds')"


class FakeSpark:
    """Answers by the statement's text; a callback runs at each question."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[Column, ...] | RefusedStatementError] = {}
        self.at_each: Callable[[], None] = lambda: None
        self.asked: list[str] = []

    async def analyze(
        self,
        views: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        load: bool = False,
    ) -> tuple[Column, ...]:
        self.asked.append(statement)
        self.at_each()
        for part, answer in self.answers.items():
            if part in statement:
                if isinstance(answer, RefusedStatementError):
                    raise answer
                return answer
        return (Column("user_id", "BIGINT"), Column("page", "STRING"))

    async def scans(
        self,
        tables: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        client: ClientPlan | None = None,
    ) -> Scanned:
        columns = await self.analyze(tables, statement, functions)
        return Scanned(columns, tuple(TableScan(name, ("page",)) for name in tables))


class FakeSplits:
    """Two splits of each table at each of its sites; a callback runs at each question."""

    def __init__(self) -> None:
        self.at_each: Callable[[], None] = lambda: None
        self.asked: list[tuple[str, str, Condition | None]] = []

    async def splits(
        self, relation: Relation, site: str, split_bytes: int, needed: Condition | None = None
    ) -> tuple[Split, ...]:
        self.at_each()
        self.asked.append((relation.name, site, needed))
        path = f"/data/{site}/{relation.name}"
        offsets = (0, 100) if split_bytes > 100 else (0, 100, 200)
        return tuple(Split(site, (FilePart(path, offset, 100),), 100) for offset in offsets)


class World:
    def __init__(self) -> None:
        self.splits = FakeSplits()
        store, clock = SqliteStore.in_memory(), VirtualClock(START)
        self.registry = SiteRegistry(store, TOPOLOGY, clock=clock, heartbeat_timeout=CLICKS.watermark_delay)
        self.sites = self.registry.sites
        self.catalog = CatalogManager(store, TOPOLOGY, clock=clock, live_readers=lambda name: ())
        self.spark = FakeSpark()
        self.records: dict[Pair, LinkRecord] = {}
        self.planner = QueryPlanner(self.parts())
        for relation in (CLICKS, PAGES):
            self.catalog.create(relation)
        for site in ("us", "eu", "hub"):
            self.registry.register(site_record(site))

    def parts(self) -> PlanningParts:
        return PlanningParts(
            self.catalog,
            self.sites,
            MeasuredRates(),
            self.spark,
            wan=lambda: snapshot(TOPOLOGY, self.records, START),
            splits=self.splits,
        )

    async def plan(self, text: str) -> PhysicalPlan:
        (statement,) = parse_script(text)
        assert isinstance(statement, SelectQuery)
        return (await self.planner.planned(statement)).plan


@pytest.fixture
def world() -> World:
    return World()


async def test_the_users_text_is_checked_first_then_each_stage(world: World) -> None:
    plan = await world.plan(FILTER)
    assert world.spark.asked[0] == FILTER
    assert world.spark.asked[1:] == [plan.stage(plan.result_stage).sql]
    assert plan.columns == (Column("user_id", "BIGINT"), Column("page", "STRING"))
    assert plan.stage(plan.result_stage).pinned == ("eu", "us")


async def test_a_catalog_that_changed_meanwhile_has_the_query_planned_anew(world: World) -> None:
    def change_once() -> None:
        world.spark.at_each = lambda: None
        world.catalog.alter("clicks", {"seed": "7"})

    world.spark.at_each = change_once
    await world.plan(FILTER)
    assert world.spark.asked.count(FILTER) == 2


async def test_other_relations_may_change_meanwhile(world: World) -> None:
    world.spark.at_each = lambda: void(world.catalog.alter("pages", {"path": f"/data/{len(world.spark.asked)}"}))
    await world.plan(FILTER)
    assert world.spark.asked.count(FILTER) == 1


async def test_a_catalog_that_never_rests_is_given_up(world: World) -> None:
    world.spark.at_each = lambda: void(world.catalog.alter("clicks", {"seed": str(len(world.spark.asked))}))
    with pytest.raises(CatalogChangedError):
        await world.plan(FILTER)
    assert world.spark.asked.count(FILTER) == 3


def void(value: object) -> None:
    """For callbacks whose answer is of no use."""


async def test_a_refusal_of_the_text_has_its_place(world: World) -> None:
    world.spark.answers[FILTER] = RefusedStatementError("no such function", line=1, column=17, fragment="page")
    with pytest.raises(InvalidExpressionError) as caught:
        await world.plan(FILTER)
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (1, 17)


async def test_a_refusal_of_a_stage_names_the_stage(world: World) -> None:
    world.spark.answers["FROM input"] = RefusedStatementError("types differ", line=1, column=1, fragment="")
    with pytest.raises(InvalidExpressionError, match="Spark refuses stage s1 of the plan: types differ") as caught:
        await world.plan(FILTER)
    assert caught.value.ids == {"stage": "s1"}


PARTIALS = (Column("_window_start", "TIMESTAMP"), Column("_p0", "BIGINT"), Column("_bin", "BIGINT"))
RESULT = (Column("w", "STRUCT<start:TIMESTAMP,end:TIMESTAMP>"), Column("total", "BIGINT"))


async def test_combining_partials_must_keep_their_types(world: World) -> None:
    world.spark.answers = {SUM: RESULT, "AS total": RESULT, "AS kept": PARTIALS, "AS _p0": PARTIALS}
    plan = await world.plan(SUM)
    assert plan.columns == RESULT
    assert plan.stage("s1").columns == PARTIALS[:2]
    world.spark.answers["AS _p0"] = (PARTIALS[0], replace(PARTIALS[1], type="DECIMAL(38,0)"))
    with pytest.raises(InvalidExpressionError, match="partials of _p0 are BIGINT, but DECIMAL"):
        await world.plan(SUM)


async def test_a_site_that_is_needed_must_be_alive(world: World) -> None:
    fresh = World()
    fresh.sites = Sites(TOPOLOGY, draining={})
    fresh.planner = QueryPlanner(fresh.parts())
    with pytest.raises(PlacementError):
        await fresh.plan(FILTER)


async def test_a_site_that_comes_back_while_others_are_asked_for_splits_is_not_left_out(world: World) -> None:
    options = PAGES.bindings[0].options
    world.catalog.create(replace(PAGES, name="visits", bindings=(Binding("us", options), Binding("eu", options))))
    world.registry.deregister("us", site_record("us").incarnation)
    world.splits.at_each = lambda: world.registry.register(site_record("us"))
    with pytest.raises(PlacementError, match="site us is needed"):
        await world.plan("SELECT page FROM visits")
    plan = await world.plan("SELECT page FROM visits")
    assert isinstance(plan, BatchPlan)
    assert {split.site for split in plan.splits} == {"us", "eu"}


async def test_sites_are_told_which_rows_are_needed_and_list_what_several_stages_read_once(world: World) -> None:
    await world.plan(
        "SELECT page FROM pages WHERE topic = 'a' UNION ALL SELECT topic FROM pages WHERE topic = 'a' "
        "UNION ALL SELECT page FROM pages"
    )
    assert world.splits.asked == [
        ("pages", "us", AllOf((Comparison("topic", "=", "a"),))),
        ("pages", "us", None),
    ]


async def test_a_plan_keeps_the_figures_of_links_that_it_was_made_with(world: World) -> None:
    plan = await world.plan(FILTER)
    assert plan.figures == (LinkFigures("us", "hub", 2.5e6, 2.5e6, timedelta(milliseconds=40)),)
    sample = BandwidthSample(START - timedelta(seconds=4), Method.IPERF3, 1e6)
    world.records[("us", "hub")] = fold_bandwidth(LinkRecord(), sample)
    (figures,) = (await world.plan(FILTER)).figures
    assert (figures.capacity_bytes_per_s, figures.age) == (1e6, timedelta(seconds=4))
    assert figures.confidence == pytest.approx(0.99, abs=0.01)
    assert plan.figures[0].capacity_bytes_per_s == 2.5e6
