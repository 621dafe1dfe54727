"""The engine on a Spark cluster whose executors do not see the agent's files.

Run by test_spark_cluster in a process of its own, for a process has one Spark. SELAT_HIDDEN names the directory that is
the agent's alone; with SELAT_IS_HIDDEN the executors have been given an empty one in its place. With SELAT_ENCRYPTED
nothing of it crosses the network in clear.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from site_agent.connectors.files.timeline import Timeline, write_index
from site_agent.engine import ArrowScan, EpochRequest, FilesScan, MalformedRow, ParquetSlice, Scan, SlicesScan
from site_agent.engine.cluster.driver import serve_files
from site_agent.engine.jvm.jar import find_jar
from site_agent.engine.jvm.session import SparkOptions, start_spark
from site_agent.engine.spark import SparkEngine
from tests.integration.test_engine import COLUMNS, NAMES, files, rows, run, tolerant
from tests.jvm import SHORT_LIVED
from tests.needs import Lack, Need, unless

pytestmark = pytest.mark.spark

HIDDEN = Path(os.environ["SELAT_HIDDEN"])
ENCRYPTED = "SELAT_ENCRYPTED" in os.environ
SECRET = "known-to-master-workers-and-driver"
MANY = 90_000
TOTALS = "SELECT count(*) AS n, sum(v) AS s FROM input"
EXPECTED = [{"n": MANY, "s": MANY * (MANY - 1) // 2}]


class Fetchers(logging.Handler):
    """Notes which process fetches, while its connection is open."""

    def __init__(self) -> None:
        super().__init__()
        self.pids: set[int] = set()

    def emit(self, record: logging.LogRecord) -> None:
        assert isinstance(record.args, tuple)
        port = record.args[2]
        found = (c.pid for c in psutil.net_connections("tcp") if c.laddr and c.laddr.port == port)
        self.pids.update(pid for pid in found if pid not in (None, os.getpid()))


@pytest.fixture(scope="module")
def fetchers() -> Iterator[Fetchers]:
    handler = Fetchers()
    logger = logging.getLogger("site_agent.engine.cluster.file_server")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, fetchers: Fetchers) -> Iterator[SparkEngine]:
    settings = {"spark.executor.memory": "512m", "spark.executor.defaultJavaOptions": SHORT_LIVED}
    options = SparkOptions(
        "local-cluster[2,1,1024]",
        java_options=SHORT_LIVED,
        settings=settings,
        encrypted=ENCRYPTED,
        secret=SECRET if ENCRYPTED else "",
    )
    scratch = tmp_path_factory.mktemp("spark")
    session = start_spark(slots=1, scratch=scratch, options=options)
    server = serve_files(session, scratch=scratch, port=0, encrypted=ENCRYPTED)
    yield SparkEngine(session, scratch=HIDDEN / "scratch", files=server)
    server.close()
    session.stop()


def executors() -> list[int]:
    family = psutil.Process().children(recursive=True)
    return [p.pid for p in family if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in _command(p)]


def _command(process: psutil.Process) -> list[str]:
    """Empty for a process that has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def csv_file(name: str, extra: str = "") -> Path:
    path = HIDDEN / name
    lines = (f"2026-01-01 00:00:{i % 60:02d},{i % 3},{i}\n" for i in range(MANY))
    path.write_text("".join(lines) + extra)
    return path


def check(engine: SparkEngine, scan: Scan) -> None:
    assert run(engine, TOTALS, scan).table.to_pylist() == EXPECTED


def test_rows_in_memory(engine: SparkEngine) -> None:
    assert run(engine, TOTALS, ArrowScan(rows(10))).table.to_pylist() == [{"n": 10, "s": 45}]
    check(engine, ArrowScan(rows(MANY)))


@unless(Lack(Need.MACHINE, "a Java compiler, for scripts/build_jar") if find_jar() is None else None)
def test_small_epochs_run_a_kept_plan(engine: SparkEngine) -> None:
    """In the driver: no executor is asked, and none has to see the rows."""
    made = [run(engine, TOTALS, ArrowScan(rows(count)), task="q.kept.us") for count in (10, 20, 5)]
    assert [result.table.to_pylist()[0]["n"] for result in made] == [10, 20, 5]
    assert [result.planned for result in made] == [True, False, False]
    engine.drop_task("q.kept.us")


def test_files_of_each_format(engine: SparkEngine) -> None:
    check(engine, files(csv_file("a b [1]{x}.csv"), "csv"))
    pq.write_table(rows(MANY), HIDDEN / "rows.parquet")
    check(engine, files(HIDDEN / "rows.parquet", "parquet"))
    lines = (f'{{"ts": "2026-01-01T00:00:00Z", "k": 1, "v": {i}}}\n' for i in range(MANY))
    (HIDDEN / "rows.json").write_text("".join(lines))
    check(engine, files(HIDDEN / "rows.json", "json"))


def test_malformed_rows_name_the_agents_file(engine: SparkEngine) -> None:
    path = csv_file("bad file.csv", "2026-01-01 00:00:00,one,5\n")
    found: list[MalformedRow] = []
    request = EpochRequest("q.m.us", TOTALS, tolerant(path, "csv"), "us", malformed=found.extend)
    result = engine.run(request)
    assert (result.table.to_pylist(), result.rows_malformed) == (EXPECTED, 1)
    assert [(row.file, row.row) for row in found] == [(str(path), "2026-01-01 00:00:00,one,5")]


def test_a_table_copy_is_joined(engine: SparkEngine) -> None:
    engine.put_table("q.j.us", "t0", pa.table({"v": pa.array(range(MANY), pa.int64())}))
    sql = "SELECT count(*) AS n, sum(input.v) AS s FROM input JOIN t0 ON input.v = t0.v"
    result = engine.run(EpochRequest("q.j.us", sql, ArrowScan(rows(MANY)), "us", tables=("t0",)))
    assert result.table.to_pylist() == EXPECTED
    engine.drop_task("q.j.us")


def test_a_replay_is_prepared_here_and_read_in_slices(engine: SparkEngine) -> None:
    directory = HIDDEN / "prepared"
    directory.mkdir()
    scan = files(csv_file("replay.csv"), "csv")
    engine.prepare(FilesScan("csv", scan.paths, COLUMNS, NAMES, scan.options), "ts", directory)
    write_index(directory, "ts")
    timeline = Timeline(directory)
    assert timeline.rows == MANY
    slices: tuple[ParquetSlice, ...] = timeline.slices(0, MANY)
    assert len(slices) > 1
    check(engine, SlicesScan(slices, COLUMNS, NAMES))


def test_executors_fetched_all_of_it(engine: SparkEngine, fetchers: Fetchers) -> None:
    running = executors()
    assert len(running) == 2
    # Spark may have given all work so far to the same one: files of more than one task keep both at work.
    paths = tuple(csv_file(f"more {number}.csv") for number in range(4))
    one = files(paths[0], "csv")
    for _ in range(20):
        if set(running) <= fetchers.pids:
            break
        found = run(engine, TOTALS, replace(one, paths=tuple(map(str, paths)))).table.to_pylist()
        assert found == [{name: value * len(paths) for name, value in EXPECTED[0].items()}]
    assert set(running) <= fetchers.pids, "an executor never fetched"
    if "SELAT_IS_HIDDEN" in os.environ:
        assert [list(Path(f"/proc/{pid}/root{HIDDEN}").iterdir()) for pid in running] == [[], []]
    with engine._frames.open(engine._base.newSession(), files(HIDDEN / "rows.json", "json")) as frame:
        scheme = "swebhdfs://" if ENCRYPTED else "webhdfs://"
        assert all(name.startswith(scheme) for name in frame.rows.inputFiles())
