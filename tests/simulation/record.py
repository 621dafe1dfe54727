"""`python -m tests.simulation.record`: asks Spark about the workload's statements, and writes its answers down."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from site_agent.engine import Engine, EpochRequest, EpochResult, Field, PythonFunction
from site_agent.engine.jvm.session import SparkOptions, start_spark
from site_agent.engine.spark import SparkEngine
from tests.simulation.engine import ANALYSES, Analyses, question
from tests.simulation.plan import SITES, Plan
from tests.simulation.schedule import play
from tests.simulation.workload import QUERIES

CALM = Plan(seed=1, sites=SITES, queries=tuple(sorted(QUERIES)), rows=60)
"""All queries, and no faults."""


class Recorder:
    """An engine that writes down what it is asked about statements."""

    def __init__(self, engine: Engine, analyses: Analyses) -> None:
        self._engine = engine
        self._analyses = analyses

    def run(self, request: EpochRequest) -> EpochResult:
        return self._engine.run(request)

    def put_table(self, task_id: str, view: str, table: pa.Table | Sequence[Field]) -> None:
        self._engine.put_table(task_id, view, table)

    def drop_task(self, task_id: str) -> None:
        self._engine.drop_task(task_id)

    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        found = self._engine.analyze(views, statement, functions)
        self._analyses[question(views, statement)] = [[field.name, field.type] for field in found]
        return found

    def load(self, functions: Sequence[PythonFunction]) -> None:
        self._engine.load(functions)


def main() -> int:
    analyses: Analyses = {}
    with TemporaryDirectory() as made:
        session = start_spark(slots=2, scratch=Path(made), options=SparkOptions())
        spark = SparkEngine(session, scratch=Path(made))
        outcome = play(CALM, engine=lambda: Recorder(spark, analyses))
        session.stop()
    if outcome.failed is not None:
        sys.stderr.write(f"{outcome.failed.value}: {outcome.told}\n")
        return 1
    ANALYSES.write_text(json.dumps(analyses, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
