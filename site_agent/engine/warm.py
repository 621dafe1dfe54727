"""What an agent runs when it starts, so that no query pays for the JVM's and Spark's first time.

Java loads classes when they are first used and compiles what is hot; Spark generates, compiles and caches code by the
shape of a plan. So each kind of epoch runs once, with the plans that stages have: rows made from a range and read from
Arrow, from text and from Parquet, filtered, aggregated to partials by window and key, merged; and a statement is
analysed. Only the first of these is waited for: an agent that comes back after a crash has better things to do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq

from planner.values.names import INPUT_VIEW
from site_agent.engine import Admission, ArrowScan, Engine, EpochRequest, Field, FilesScan, RangeScan, Scan

_TASK = "warm-up"
_ROWS = 100

_FILTER = f"SELECT k, v, ts FROM {INPUT_VIEW} WHERE v > 10"
_PARTIAL = (
    f"SELECT window(ts, '1 second').start AS w, k, count(*) AS n, sum(v) AS s, count(v) AS c FROM {INPUT_VIEW}"
    " GROUP BY window(ts, '1 second'), k"
)
_MERGE = f"SELECT w, k, sum(n) AS n, sum(s) / sum(c) AS a FROM {INPUT_VIEW} GROUP BY w, k"
_COLUMNS = (Field("k", "STRING"), Field("v", "BIGINT"), Field("ts", "TIMESTAMP"))


def warm_up(engine: Engine) -> None:
    """Run one tiny epoch: Spark works, and the first query does not wait for most of what is loaded once.

    Raises:
        EngineError: Spark does not work.
    """
    try:
        engine.run(_request(_PARTIAL, ArrowScan(_rows())))
    finally:
        engine.drop_task(_TASK)


def warm_up_whole(engine: Engine, stop: Event) -> None:
    """Run a tiny epoch of every kind, until `stop` is set.

    Raises:
        EngineError: Spark does not work.
    """
    with tempfile.TemporaryDirectory(prefix="selat-warm-up-") as directory:
        try:
            for request in _requests(Path(directory)):
                if stop.is_set():
                    return
                engine.run(request)
            engine.analyze({INPUT_VIEW: _COLUMNS}, _PARTIAL)
        finally:
            engine.drop_task(_TASK)


def _requests(directory: Path) -> Iterable[EpochRequest]:
    generated = RangeScan(
        0,
        _ROWS,
        (("k", "element_at(array('a', 'b'), CAST(id % 2 AS INT) + 1)"), ("v", "id"), ("ts", "timestamp_micros(id)")),
    )
    yield _request(_PARTIAL, generated)
    yield _request(_FILTER, generated)
    file = directory / "rows.csv"
    file.write_text("".join(f"a,{n},2026-01-01 00:00:00\n" for n in range(_ROWS)))
    options = {"mode": "FAILFAST", "columnPruning": "false"}
    yield _request(_FILTER, FilesScan("csv", (str(file),), _COLUMNS, tuple(c.name for c in _COLUMNS), options))
    pq.write_table(_rows(), directory / "rows.parquet")
    columns = tuple(c.name for c in _COLUMNS)
    yield _request(_PARTIAL, FilesScan("parquet", (str(directory / "rows.parquet"),), _COLUMNS, columns))
    partials = {"w": pa.array([0] * _ROWS, pa.timestamp("us", tz="UTC")), "k": ["a"] * _ROWS, "n": range(_ROWS)}
    merged = ArrowScan(pa.table({**partials, "s": range(_ROWS), "c": range(_ROWS)}))
    yield replace(_request(_MERGE, merged), admission=None)


def _request(sql: str, scan: Scan) -> EpochRequest:
    return EpochRequest(_TASK, sql, scan, "", Admission("ts", None))


def _rows() -> pa.Table:
    times = pa.array(range(_ROWS), pa.timestamp("us", tz="UTC"))
    return pa.table({"k": ["a", "b"] * (_ROWS // 2), "v": range(_ROWS), "ts": times})
