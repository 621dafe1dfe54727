"""`python -m tests.simulation.record`: asks Spark about the workload's statements, and writes its answers down.

With `--compare N` a cluster runs every epoch of one query in N on both engines instead; exit code 1 when they differ.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from planner.values.names import BIN_COLUMN
from site_agent.engine import AnalysisError, Engine, EpochRequest, EpochResult, Field, PythonFunction, ScannedStatement
from site_agent.engine.jvm.session import SparkOptions, start_spark
from site_agent.engine.spark import SparkEngine
from tests.simulation.engine import ANALYSES, Analyses, SimulatedEngine, computed, question, recorded
from tests.simulation.memo import Memo
from tests.simulation.plan import SITES, Plan
from tests.simulation.schedule import play
from tests.simulation.workload import QUERIES


def _calm(every: int) -> Plan:
    """A plan without faults, with one query in `every`."""
    return Plan(seed=1, sites=SITES, queries=tuple(sorted(QUERIES)[::every]), rows=60)


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
        if _unaided(views, statement) != found:
            self._analyses[question(views, statement)] = [[field.name, field.type] for field in found]
        return found

    def scans(
        self, tables: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        return self._engine.scans(tables, statement, functions)

    def load(self, functions: Sequence[PythonFunction]) -> None:
        self._engine.load(functions)


def _unaided(views: Mapping[str, Sequence[Field]], statement: str) -> tuple[Field, ...] | None:
    """What the simulated engine says by itself; None: it has no answer."""
    try:
        return SimulatedEngine(Memo(computed), {}).analyze(views, statement)
    except AnalysisError:
        return None


def _rows(table: pa.Table) -> list[str]:
    """Without the bin, which only orders rows: a hash of Spark's."""
    columns = sorted(name for name in table.column_names if name != BIN_COLUMN)
    return sorted(repr(sorted(_plain(value) for value in row.items())) for row in table.select(columns).to_pylist())


def _plain(item: tuple[str, object]) -> tuple[str, str]:
    """Lists are sets here: their order means nothing."""
    name, value = item
    return name, repr(sorted(value, key=repr)) if isinstance(value, list) else repr(value)


class Both:
    """Runs every epoch on both, and asserts that they agree."""

    def __init__(self, spark: SparkEngine, simulated: SimulatedEngine) -> None:
        self._spark = spark
        self._simulated = simulated
        self.compared = 0

    def run(self, request: EpochRequest) -> EpochResult:
        real, stand_in = self._spark.run(request), self._simulated.run(request)
        assert _rows(stand_in.table) == _rows(real.table), request.sql
        assert stand_in.table.schema.names == real.table.schema.names, request.sql
        assert (stand_in.rows_read, stand_in.rows_late) == (real.rows_read, real.rows_late)
        assert stand_in.max_event_time_us == real.max_event_time_us
        self.compared += 1
        return real

    def put_table(self, task_id: str, view: str, table: pa.Table | Sequence[Field]) -> None:
        self._spark.put_table(task_id, view, table)
        self._simulated.put_table(task_id, view, table)

    def drop_task(self, task_id: str) -> None:
        self._spark.drop_task(task_id)
        self._simulated.drop_task(task_id)

    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        found = self._spark.analyze(views, statement, functions)
        assert self._simulated.analyze(views, statement, functions) == found
        return found

    def scans(
        self, tables: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        return self._spark.scans(tables, statement, functions)

    def load(self, functions: Sequence[PythonFunction]) -> None:
        self._spark.load(functions)


def main() -> int:
    analyses: Analyses = {}
    compares = len(sys.argv) == 3 and sys.argv[1] == "--compare"
    calm = _calm(int(sys.argv[2]) if compares else 1)
    logging.disable(logging.WARNING)
    with TemporaryDirectory() as made:
        session = start_spark(slots=2, scratch=Path(made), options=SparkOptions())
        spark = SparkEngine(session, scratch=Path(made))
        simulated = SimulatedEngine(Memo(computed), recorded())
        both = Both(spark, simulated)
        outcome = play(calm, engine=lambda: both if compares else Recorder(spark, analyses))
        session.stop()
    if outcome.failed is not None:
        sys.stderr.write(f"{outcome.failed.value}: {outcome.told}\n")
        return 1
    if compares:
        sys.stdout.write(f"{both.compared} epochs are the same on both engines\n")
    else:
        ANALYSES.write_text(json.dumps(analyses, indent=1, sort_keys=True) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    code = main()
    # The world has left processes in the middle of their work: nothing of them may run now.
    os._exit(code)
