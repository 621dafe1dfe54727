"""Answers of Spark that are kept."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import pytest

from master.analysis.remembered import RememberedAnalyzer
from master.analysis.spark import RefusedStatementError
from master.base.errors import NoSiteAvailableError
from planner.graph.clientplan import ClientPlan
from planner.graph.whole import Scanned
from planner.relations.catalog import Column, Function
from planner.values.scans import TableScan

VIEWS = {"input": (Column("a", "INT"),)}
FUNCTION = Function("f", (Column("x", "INT"),), "INT", "f", "f.py", "def f(x): return x", digest="1")


class FakeSites:
    """Answers with what it was asked, and counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.generation: Hashable | None = "first"
        self.error: Exception | None = None

    async def analyze(
        self,
        views: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        load: bool = False,
    ) -> tuple[Column, ...]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return (Column(statement, ",".join(c.type for columns in views.values() for c in columns)),)

    async def scans(
        self,
        tables: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        client: ClientPlan | None = None,
    ) -> Scanned:
        return Scanned(await self.analyze(tables, statement, functions), (TableScan("t", ("a",)),))


@pytest.fixture
def sites() -> FakeSites:
    return FakeSites()


@pytest.fixture
def analyzer(sites: FakeSites) -> RememberedAnalyzer:
    return RememberedAnalyzer(sites, lambda: sites.generation, kept=2)


async def test_scans_are_asked_once_and_are_no_answer_to_a_question_for_columns(
    sites: FakeSites, analyzer: RememberedAnalyzer
) -> None:
    first = await analyzer.scans(VIEWS, "SELECT a")
    assert await analyzer.scans(VIEWS, "SELECT a") is first
    assert sites.asked == 1
    assert await analyzer.analyze(VIEWS, "SELECT a") == first.columns
    assert sites.asked == 2


async def test_the_same_question_is_asked_once(sites: FakeSites, analyzer: RememberedAnalyzer) -> None:
    first = await analyzer.analyze(VIEWS, "SELECT a")
    assert await analyzer.analyze({"input": [Column("a", "INT")]}, "SELECT a") == first
    assert sites.asked == 1


async def test_whatever_differs_makes_another_question(sites: FakeSites, analyzer: RememberedAnalyzer) -> None:
    await analyzer.analyze(VIEWS, "SELECT a")
    assert await analyzer.analyze({"input": (Column("a", "BIGINT"),)}, "SELECT a") == (Column("SELECT a", "BIGINT"),)
    await analyzer.analyze(VIEWS, "SELECT a", [FUNCTION])
    await analyzer.analyze(VIEWS, "SELECT a + 1")
    assert sites.asked == 4


async def test_refusals_are_asked_for_again(sites: FakeSites, analyzer: RememberedAnalyzer) -> None:
    sites.error = RefusedStatementError("no", line=1, column=1, fragment="")
    for _ in range(2):
        with pytest.raises(RefusedStatementError):
            await analyzer.analyze(VIEWS, "SELECT a")
    sites.error = None
    assert await analyzer.analyze(VIEWS, "SELECT a")


async def test_other_agents_are_asked_anew(sites: FakeSites, analyzer: RememberedAnalyzer) -> None:
    await analyzer.analyze(VIEWS, "SELECT a")
    sites.generation = "second"
    await analyzer.analyze(VIEWS, "SELECT a")
    assert sites.asked == 2


async def test_with_nobody_there_nothing_is_known(sites: FakeSites, analyzer: RememberedAnalyzer) -> None:
    await analyzer.analyze(VIEWS, "SELECT a")
    sites.generation, sites.error = None, NoSiteAvailableError("nobody")
    with pytest.raises(NoSiteAvailableError):
        await analyzer.analyze(VIEWS, "SELECT a")


async def test_modules_are_loaded_every_time(sites: FakeSites, analyzer: RememberedAnalyzer) -> None:
    for _ in range(2):
        await analyzer.analyze(VIEWS, "SELECT a", [FUNCTION], load=True)
    assert sites.asked == 2


async def test_what_was_not_asked_for_longest_is_forgotten(sites: FakeSites, analyzer: RememberedAnalyzer) -> None:
    for statement in ("one", "two", "one", "three", "one"):
        await analyzer.analyze(VIEWS, statement)
    assert sites.asked == 3
    await analyzer.analyze(VIEWS, "two")
    assert sites.asked == 4
