"""Random queries over tables on simulated clusters: Spark says what their scans must deliver, the product's own master
and agents do the rest with DuckDB as engine, through faults; results equal DuckDB's over all rows."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from site_agent.engine.spark import SparkEngine
from tests import seeds
from tests.simulation.overtables import asked, over_tables
from tests.simulation.plan import Plan
from tests.simulation.report import readable
from tests.simulation.worker import played

pytestmark = [pytest.mark.spark, pytest.mark.seeded]

FIRST_SEED = 1
PLANS, PLANS_OF_LONG = 4, 400
QUERIES, QUERIES_OF_LONG = 17, 1950
"""Some are refused: Spark does not have every sub-query everywhere."""


@pytest.mark.timeout(300)
def test_random_queries_over_tables(spark_engine: SparkEngine) -> None:
    _check(spark_engine, PLANS, QUERIES)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_random_queries_over_tables(spark_engine: SparkEngine) -> None:
    _check(spark_engine, PLANS_OF_LONG, QUERIES_OF_LONG)


def _check(spark: SparkEngine, plans: int, queries: int) -> None:
    first = FIRST_SEED if seeds.GIVEN is None else Random(seeds.GIVEN).randrange(10**9)

    def drawn() -> Iterator[Plan]:
        for seed in range(first, first + plans):
            yield asked(over_tables(seed), spark)

    outcomes = list(played(drawn()))
    failed = [readable(outcome) for outcome in outcomes if outcome.failed is not None]
    assert failed == [], "\n\n".join(failed)
    assert sum(len(outcome.plan.queries) for outcome in outcomes) >= queries
    assert sum(outcome.faults for outcome in outcomes) > 0
