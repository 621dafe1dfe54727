"""What the first epochs of stages cost, and how much of it a warm-up at the agent's start takes away.

    python -m benchmarks.startup [--rounds 3]

Each round starts a JVM per kind of warm-up (none: the baseline; one epoch; every kind of epoch, which is what an agent
does), and runs new tasks in it: the first of their kind, one more of each kind, and later epochs. Prints medians in ms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeVar

import pyarrow as pa

from site_agent.engine import Admission, ArrowScan, EpochRequest, Field, RangeScan
from site_agent.engine.session import start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up, warm_up_whole


def _whole(engine: SparkEngine) -> None:
    warm_up(engine)
    warm_up_whole(engine, Event())


WARM_UPS: Mapping[str, Callable[[SparkEngine], None]] = {
    "none": lambda engine: None,
    "one": warm_up,
    "every kind": _whole,
}
T = TypeVar("T")
COLUMNS = (Field("user_id", "BIGINT"), Field("page", "STRING"), Field("ts", "TIMESTAMP"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="JVMs per kind of warm-up (default %(default)s)")
    parser.add_argument("--one", choices=WARM_UPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(_measure(WARM_UPS[arguments.one])))
        return
    found: dict[str, list[dict[str, float]]] = {name: [] for name in WARM_UPS}
    for _ in range(arguments.rounds):
        for name, results in found.items():
            command = [sys.executable, "-m", "benchmarks.startup", "--one", name]
            answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            results.append(json.loads(answer.splitlines()[-1]))
    _print(found)


def _print(found: Mapping[str, list[dict[str, float]]]) -> None:
    print(f"{'':24}" + "".join(f"{name:>12}" for name in found) + f"{'ratio':>8}")
    for what in found["none"][0]:
        medians = [statistics.median(result[what] for result in results) for results in found.values()]
        ratio = f"{medians[-1] / medians[0]:8.2f}" if medians[0] else ""
        print(f"{what:24}" + "".join(f"{median:12.0f}" for median in medians) + ratio)


def _measure(warm: Callable[[SparkEngine], None]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        times: dict[str, float] = {}
        session = _timed(times, "start of Spark", lambda: start_spark(slots=2, scratch=Path(name) / "spark"))
        engine = SparkEngine(session, scratch=Path(name) / "engine")
        _timed(times, "warm-up", lambda: warm(engine))
        _timed(times, "analysis, first", lambda: _analyze(engine))
        _timed(times, "analysis, next", lambda: _analyze(engine))
        for kind, request in _requests().items():
            for order in ("first", "next"):
                task = replace(request, task_id=f"{kind}-{order}")
                _timed(times, f"{kind}, {order} task", partial(engine.run, task))
            later: dict[str, float] = {}
            for number in range(5):
                _timed(later, str(number), partial(engine.run, task))
            times[f"{kind}, later epochs"] = statistics.median(later.values())
        session.stop()
        return times


def _timed(times: dict[str, float], what: str, work: Callable[[], T]) -> T:
    started = time.perf_counter()
    result = work()
    times[what] = (time.perf_counter() - started) * 1000
    return result


def _analyze(engine: SparkEngine) -> None:
    engine.analyze({"input": COLUMNS}, "SELECT page, count(*) AS n FROM input GROUP BY page, window(ts, '10 seconds')")


def _requests() -> Mapping[str, EpochRequest]:
    """Stages like those of the README's queries."""
    rows = RangeScan(
        0,
        5_000,
        (
            ("user_id", "pmod(xxhash64(id, 7), 1000)"),
            ("page", "element_at(array('home', 'search', 'cart'), CAST(pmod(xxhash64(id, 8), 3) AS INT) + 1)"),
            ("ts", "timestamp_micros(1767225600000000 + id * 200)"),
        ),
    )
    partial_sql = (
        "SELECT window(ts, '10 seconds').start AS w, page, count(*) AS n, sum(user_id) AS u FROM input"
        " GROUP BY window(ts, '10 seconds'), page"
    )
    partials = pa.table(
        {
            "w": pa.array([0] * 300, pa.timestamp("us", tz="UTC")),
            "page": ["home", "search", "cart"] * 100,
            "n": range(300),
            "u": range(300),
        }
    )
    merge_sql = "SELECT w, page, sum(n) AS n, sum(u) AS u FROM input GROUP BY w, page"
    admission = Admission("ts", None)
    return {
        "filter": EpochRequest("", "SELECT user_id, page FROM input WHERE user_id > 5", rows, "us", admission),
        "partials": EpochRequest("", partial_sql, rows, "us", admission),
        "merge": EpochRequest("", merge_sql, ArrowScan(partials), "us"),
    }


if __name__ == "__main__":
    main()
