"""TPC-H's 22 texts beside plain Spark that has all tables at one site, and beside sending it the tables first.

    python -m benchmarks.tpch_times [--scale 1] [--only Q3 Q4] [--record FILE]

Plain Spark and Selat run on the same cores with JVMs of the same settings, one after the other. Each runs each text
twice, and the second run counts. Then Selat runs each text once more over links of 20 Mbit/s and 50 ms, which routers
emulate. What sending the tables first would take is not run but computed: the files of the text's tables at each other
site over a link of its own, all at once, and then plain Spark's time. All results are compared with DuckDB's. Exits
with 1 when one differs.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

import selat
from benchmarks.report import make_text_parser, publish, say, table
from benchmarks.tpch import queries
from benchmarks.tpch.__main__ import SITES, TOPOLOGY, analyse, mean
from benchmarks.tpch.answers import difference
from benchmarks.tpch.data import TABLES, declarations, load_dbgen, write_shards
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from site_agent.engine.jvm.session import SparkOptions, start_spark

CORES = 2
HEAP = "4g"
"""Each JVM has so much: plain Spark needs more than an agent's default for Q9 at scale 1."""
MBIT_PER_S = 20
SLOW = TOPOLOGY.replace("1000Mbit/s, latency: 1ms", f"{MBIT_PER_S}Mbit/s, latency: 50ms")
Rows = list[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds that one text takes."""

    spark: float
    near: float
    """Selat, links unlimited."""
    far: float
    """Selat over slow links."""
    shipped: float
    """The tables over slow links, then plain Spark."""


def main(scale: float, only: Sequence[str], record: Path | None) -> int:
    """Exit code: 1 when a result is not DuckDB's."""
    texts = {name: text for name, text in queries().items() if not only or name in only}
    with tempfile.TemporaryDirectory(prefix="selat-tpch-") as directory:
        root = Path(directory)
        db = load_dbgen(scale)
        write_shards(db, root / "input", SITES)
        answers = {name: db.execute(text).fetchall() for name, text in texts.items()}
        db.close()
        check = _Check(answers)
        spark = _of_spark(root, texts, check)
        near = _of_selat(root, TOPOLOGY, texts, check, runs=2)
        far = _of_selat(root, SLOW, texts, check, runs=1)
        found = {
            name: Times(spark[name], near[name], far[name], _shipping_s(root / "input", text) + spark[name])
            for name, text in texts.items()
        }
    publish("tpch_times", f"TPC-H at scale {scale:g} beside plain Spark", _parts(found, check.wrong), record)
    return 1 if check.wrong else 0


@dataclass(slots=True)
class _Check:
    """Compares results with DuckDB's, outside what is timed."""

    answers: Mapping[str, Rows]
    wrong: list[str] = field(default_factory=list)
    """The texts with another result."""

    def timed(self, who: str, name: str, run: Callable[[], Rows], runs: int) -> float:
        """Seconds of the last of some runs."""
        for _ in range(runs):
            begun = time.monotonic()
            rows = run()
            seconds = time.monotonic() - begun
        if different := difference(rows, self.answers[name]):
            self.wrong.append(name)
            say(f"{name} by {who} is DIFFERENT: {different}")
        say(f"{name:>4} by {who}: {seconds:.1f} s")
        return seconds


def _of_spark(root: Path, texts: Mapping[str, str], check: _Check) -> dict[str, float]:
    session = start_spark(slots=CORES, scratch=root / "spark", options=SparkOptions(driver_memory=HEAP)).newSession()
    session.conf.set("spark.sql.adaptive.enabled", "true")
    session.conf.set("spark.sql.shuffle.partitions", str(4 * CORES))
    for name in TABLES:
        files = [str(path) for path in sorted((root / "input").glob(f"*/{name}"))]
        session.read.parquet(*files).createOrReplaceTempView(name)
    try:
        return {name: check.timed("Spark", name, _by_spark(session, text), 2) for name, text in texts.items()}
    finally:
        session.stop()


def _by_spark(session: SparkSession, text: str) -> Callable[[], Rows]:
    return lambda: [tuple(row.values()) for row in session.sql(text).toArrow().to_pylist()]


def _of_selat(root: Path, topology: str, texts: Mapping[str, str], check: _Check, *, runs: int) -> dict[str, float]:
    (root / "topology.yaml").write_text(topology)
    emulates = topology == SLOW
    options = ClusterOptions(allow_paths=(root,), emulate_links=emulates, agent_arguments=("--driver-memory", HEAP))
    who = f"Selat over {MBIT_PER_S} Mbit/s" if emulates else "Selat"
    with (
        DevCluster(root / "topology.yaml", root / f"data-{emulates}", options) as cluster,
        selat.connect(cluster.address) as client,
    ):
        list(client.script(declarations(root / "input", SITES)))
        analyse(client)
        return {name: check.timed(who, name, _by_selat(client, text), runs) for name, text in texts.items()}


def _by_selat(client: selat.Client, text: str) -> Callable[[], Rows]:
    def run() -> Rows:
        query = client.sql(text)
        assert isinstance(query, selat.Query)
        return [tuple(row.values()) for row in query.results().arrow().to_pylist()]

    return run


def _shipping_s(shards: Path, text: str) -> float:
    """Return how long the tables that the text names take from each other site to the first, over a link each."""
    named = [name for name in TABLES if re.search(rf"\b{name}\b", text)]
    at_site = [
        sum(file.stat().st_size for name in named for file in (shards / site / name).glob("*.parquet"))
        for site in SITES[1:]
    ]
    return max(at_site) * 8 / (MBIT_PER_S * 1e6)


def _parts(found: Mapping[str, Times], wrong: Sequence[str]) -> list[str]:
    rows = [
        [
            name,
            f"{times.spark:.1f}",
            f"{times.near:.1f}",
            f"{times.near / times.spark:.2f}",
            f"{times.far:.1f}",
            f"{times.shipped:.1f}",
            f"{times.shipped / times.far:.1f}",
        ]
        for name, times in found.items()
    ]
    slower = mean([times.near / times.spark for times in found.values()])
    faster = mean([times.shipped / times.far for times in found.values()])
    head = ["text", "Spark s", "Selat s", "ratio", f"Selat s at {MBIT_PER_S} Mbit/s", "tables first s", "times faster"]
    equal = "All results are DuckDB's." if not wrong else f"Results of {', '.join(wrong)} are not DuckDB's."
    return [
        "Tables are dbgen's (tpchgen-cli 4.0.0), dealt out among three sites. *Spark* reads all of them from this "
        f"machine's disk, in a JVM with {CORES} cores and a heap of {HEAP}; Selat's sites share such a JVM on the same "
        "cores. The second run of each text counts. *Tables first* is computed: the files of the text's tables at each "
        "other site over a link of its own, all at once, then Spark's time.",
        table(head, rows),
        f"{equal} Geometric mean of *ratio*: {slower:.2f}; 1.5 at most was wanted. Of *times faster*: {faster:.1f}; "
        "3 at least was wanted.",
    ]


if __name__ == "__main__":
    arguments = make_text_parser(__doc__, scale=1.0, unit="6 million lines", example="Q3 Q4").parse_args()
    sys.exit(main(arguments.scale, arguments.only, arguments.record))
