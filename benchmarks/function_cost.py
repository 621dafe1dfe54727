"""What a Python function costs a row, by row and vectorised, against the same as an expression of Spark.

    python -m benchmarks.function_cost [--rows 400000] [--runs 5]

Each run is one epoch on one slot that sums `x * 2 + 1` over whole numbers; the three ways take turns, and must give the
same sum. Prints one table; ends within two minutes on an idle machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from site_agent.engine import EpochRequest, Field, PythonFunction, RangeScan
from site_agent.engine.jvm.session import start_spark
from site_agent.engine.spark import SparkEngine

MODULE = """
import pyarrow as pa
import pyarrow.compute as pc


def by_row(x):
    return x * 2 + 1


def vectorised(x):
    return pc.add(pc.multiply(x, 2), 1)
"""
VERSION = "__000000000000"
WAYS = {"Spark": "id * 2 + 1", "by row": f"by_row{VERSION}(id)", "vectorised": f"vectorised{VERSION}(id)"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        session = start_spark(slots=1, scratch=Path(scratch))
        try:
            show(measure(SparkEngine(session, scratch=Path(scratch) / "engine"), arguments.rows, arguments.runs))
        finally:
            session.stop()


def measure(engine: SparkEngine, rows: int, runs: int) -> dict[str, list[float]]:
    """Microseconds a row of each run; the first of each way is not counted."""
    for expression in WAYS.values():
        epoch(engine, expression, rows)
    costs: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(runs):
        for way, expression in WAYS.items():
            started_s = time.perf_counter()
            epoch(engine, expression, rows)
            costs[way].append((time.perf_counter() - started_s) / rows * 1e6)
    return costs


def epoch(engine: SparkEngine, expression: str, rows: int) -> None:
    scan = RangeScan(0, rows, (("id", "id"),))
    sql = f"SELECT sum({expression}) AS total FROM input"
    result = engine.run(EpochRequest("benchmark", sql, scan, "here", functions=functions()))
    assert result.table.to_pylist() == [{"total": rows * rows}]


def functions() -> tuple[PythonFunction, ...]:
    def function(entry: str) -> PythonFunction:
        parameters = (Field("x", "BIGINT"),)
        return PythonFunction(
            name=entry,
            versioned_name=entry + VERSION,
            parameters=parameters,
            returns="BIGINT",
            entry=entry,
            file="cost.py",
            source=MODULE,
            vectorised=entry == "vectorised",
        )

    return function("by_row"), function("vectorised")


def show(costs: dict[str, list[float]]) -> None:
    base = min(costs["Spark"])
    print(f"{'way':<12}{'median us/row':>15}{'fastest us/row':>16}{'more than Spark':>17}")
    for way, found in costs.items():
        print(f"{way:<12}{median(found):>15.2f}{min(found):>16.2f}{min(found) - base:>17.2f}")


if __name__ == "__main__":
    main()
