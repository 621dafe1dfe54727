"""What a query's start costs: its way to the first result, step by step, and the first epochs of stages.

    python -m benchmarks.startup [--rounds 1] [--record FILE]

First a cluster of three sites runs six queries of each of two kinds, from `client.sql` to the first row at the client;
the same queries run in plain Structured Streaming, from `start()` until the first batch with rows is done, in a JVM
that was warmed up as an agent's. Then each round starts a JVM per kind of warm-up (none: the baseline; every kind of
epoch, which is what an agent does), and runs new tasks in it: the first of their kind, one more of each kind, and later
epochs. Ends within three minutes on an idle machine of two cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pyarrow as pa

from benchmarks.first_results import QUERIES, Steps, selat_ways, streaming_ways
from benchmarks.processes import in_own_process
from benchmarks.report import make_parser, median, publish, say, table
from site_agent.engine import Admission, ArrowScan, EpochRequest, Field, RangeScan
from site_agent.engine.jvm.session import start_spark
from site_agent.engine.spark import SparkEngine
from site_agent.engine.warm import warm_up, warm_up_whole


def _whole(engine: SparkEngine) -> None:
    warm_up(engine)
    warm_up_whole(engine, Event())


WARM_UPS: Mapping[str, Callable[[SparkEngine], None]] = {
    "none": lambda engine: None,
    "every kind": _whole,
}
_WAYS: Mapping[str, Callable[[], Mapping[str, object]]] = {"selat": selat_ways, "streaming": streaming_ways}
WARM = 5
T = TypeVar("T")
COLUMNS = (Field("user_id", "BIGINT"), Field("page", "STRING"), Field("ts", "TIMESTAMP"))


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="JVMs per kind of warm-up (default %(default)s)")
    parser.add_argument("--one", choices=[*WARM_UPS, *_WAYS], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one = _WAYS.get(arguments.one)
        print(json.dumps(one() if one else _measure(WARM_UPS[arguments.one])))
        return 0
    parts = [_first_results(*(_alone(name) for name in _WAYS))]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in WARM_UPS}
    for number in range(arguments.rounds):
        for name, results in found.items():
            results.append(_alone(name))
            say(f"round {number + 1}: warm-up {name}")
    if arguments.rounds:
        parts.append(_first_epochs(found))
    publish("startup", "A query's start", parts, arguments.record)
    return 0


def _alone(name: str) -> Any:
    return in_own_process("benchmarks.startup", ["--one", name])


def _first_results(ways: Mapping[str, Sequence[Steps]], streaming: Mapping[str, Sequence[float]]) -> str:
    texts = [
        f"From `client.sql` to the first result row, {QUERIES} queries in a row; cold: the first after the start of "
        f"cluster or session, whose JVMs ran the same warm-up; "
        f"warm: median of the last {WARM}. Milliseconds since the submission; three sites in "
        "one process, `sources'` steps are those of the last site. Rows "
        "over files are 5,000 in one Parquet file, read at each site; rows being made begin with the query, 5,000 per "
        "second at one site, while Structured Streaming's `rate-micro-batch` has 5,000 at once. Selat's time has "
        "parsing and planning in it, and results that are on disk at their site and at the client; Structured "
        "Streaming's begins with `start()`, its plan analysed before, and ends with rows in Python, its checkpoint on "
        "disk. Selat ran first, each once."
    ]
    for kind, queries in ways.items():
        warm = {name: median([q[name] for q in queries[-WARM:] if name in q]) for name in queries[-1]}
        rows = [[name, _ms(queries[0].get(name)), _ms(at_s)] for name, at_s in warm.items()]
        plain = streaming[kind]
        plain_warm_s = median(plain[-WARM:])
        cold_s, warm_s = (steps["first row at the client"] for steps in (queries[0], warm))
        rows.append(["Structured Streaming: first batch with rows done", _ms(plain[0]), _ms(plain_warm_s)])
        rows.append(["Selat over Structured Streaming", f"{cold_s / plain[0]:.2f}", f"{warm_s / plain_warm_s:.2f}"])
        texts.append(table([kind, "cold", "warm"], rows))
    return "\n\n".join(texts)


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:,.0f}"


def _first_epochs(found: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    rows = []
    for what in found["none"][0]:
        medians = [median([result[what] for result in results]) for results in found.values()]
        ratio = f"{medians[-1] / medians[0]:.2f}" if medians[0] >= 1 else ""
        rows.append([what, *(f"{value:,.0f}" for value in medians), ratio])
    text = (
        "New tasks in a new JVM, by its warm-up: each epoch 5,000 generated rows, or 300 partials for the merge; later "
        f"epochs are the median of 5. Milliseconds, median of the rounds: {len(found['none'])}."
    )
    return f"{text}\n\n{table(['warm-up', *found, 'ratio'], rows)}"


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
    sys.exit(main())
