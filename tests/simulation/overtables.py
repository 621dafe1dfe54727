"""Plans of random queries over tables, and what Spark says of these queries: a world has no Spark of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from planner.graph.plan import Analysis
from planner.graph.whole import Scanned
from planner.planning import Planning, Refusal, planned_with
from planner.relations.catalog import Column
from planner.values.errors import PlannerError
from site_agent.engine import AnalysisError, Engine, Field, ScannedStatement
from tests.simulation import drawntables
from tests.simulation.engine import Answers, question
from tests.simulation.faults import Fault
from tests.simulation.plan import FIRST_FAULT_S, SITES, SMALL_BUDGET_BYTES, Plan, faults_begin_until_s, trouble
from tests.unit.planner.build import catalog_of, select_of

QUERIES = 5
"""The number of drawn queries in a plan."""
_ROWS = 20
"""As if a stream had so many: the plan's faults begin while its queries run."""


def over_tables(seed: int) -> Plan:
    """The plan of a seed; every other one has faults."""
    random = Random(f"{seed}/tables")
    plan = Plan(
        seed,
        sites=SITES[: random.choice((1, 2, 2, 3, 3))],
        queries=tuple(drawntables.name(seed, number) for number in range(QUERIES)),
        rows=_ROWS,
        rest_s=random.choice((0.02, 0.2)),
        slow_s=random.choice((0.003, 0.2)),
        together=random.random() < 0.5,
        budget_bytes=random.choice((1 << 30, 1 << 30, SMALL_BUDGET_BYTES)),
        key_filters=random.choice(("always", "always", "bytes", "time", "never")),
    )
    faults: list[Fault] = []
    if random.random() < 0.5:
        for _ in range(random.choice((1, 2, 4, 8))):
            faults += trouble(plan, random, random.uniform(FIRST_FAULT_S, faults_begin_until_s(plan)))
    return replace(plan, faults=tuple(faults))


def asked(plan: Plan, spark: Engine) -> Plan:
    """The plan with all that the master will ask about its queries, and without those that are refused."""
    catalog = catalog_of(";".join(drawntables.declarations(plan.seed, plan.sites)))
    answers: Answers = {}
    accepted = []
    for name in plan.queries:
        try:
            planned_with(Planning.of(select_of(drawntables.text(name)), catalog), asking(spark, answers))
        except PlannerError:
            continue
        accepted.append(name)
    return replace(plan, queries=tuple(accepted), answers=answers)


def asking(spark: Engine, answers: Answers) -> Callable[[Analysis], tuple[Column, ...] | Scanned | Refusal]:
    """Asks Spark as the master does, and keeps its answers."""

    def ask(analysis: Analysis) -> tuple[Column, ...] | Scanned | Refusal:
        views = {name: [Field(c.name, c.type) for c in columns] for name, columns in analysis.views.items()}
        try:
            found = (
                spark.scans(views, analysis.statement) if analysis.scans else spark.analyze(views, analysis.statement)
            )
        except AnalysisError as error:
            return Refusal(error.message, error.line, error.column, error.fragment)
        answers[question(views, analysis.statement)] = found
        if isinstance(found, ScannedStatement):
            return Scanned(_columns(found.columns), found.scans)
        return _columns(found)

    return ask


def _columns(fields: tuple[Field, ...]) -> tuple[Column, ...]:
    return tuple(Column(field.name, field.type) for field in fields)
