"""TPC-H's 22 texts over three shards on a real cluster: bytes over links without filters by keys and with them.

    python -m benchmarks.tpch [--scale 0.1] [--only Q3 Q4] [--record FILE]

Each result is compared with DuckDB's. The rows are dbgen's, and once more made up (`benchmarks.tpch.data`). One process
has the agents of all sites, with a JVM that they share, and links are not slowed down: times are those of a machine,
not of a WAN. Maps run at the sites of their splits (`SET batch_scheduler = 'local'`), so the bytes are those of what is
sent. Exits with 1 when a result differs.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

import selat
from benchmarks.report import make_text_parser, publish, say, table
from benchmarks.tpch import queries
from benchmarks.tpch.answers import difference
from benchmarks.tpch.data import TABLES, declarations, load, load_dbgen, write_shards
from planner.graph.batchoptions import KeyFilters
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions

SITES = ("us", "eu", "asia")
TOPOLOGY = """
gateway: us
sites: {us: {slots: 2}, eu: {slots: 2}, asia: {slots: 2}}
default_link: {bandwidth: 1000Mbit/s, latency: 1ms}
"""
MODES = (KeyFilters.NEVER, KeyFilters.BYTES)
SOURCES: Mapping[str, Callable[[float], duckdb.DuckDBPyConnection]] = {
    "Tables of dbgen (tpchgen-cli 4.0.0)": load_dbgen,
    "Tables made up": load,
}
"""The sources of the rows. Until November 2026 only the second was measured, against what a prototype sent of the
first."""
BEST_SCALE = 0.1
BEST_KB = dict(
    zip(
        queries(),
        (2.8, 13, 53, 21, 34, 0.5, 46, 49, 189, 61, 16, 17, 15, 38, 10, 29, 4.5, 138, 3.7, 5.6, 132, 3.2),
        strict=True,
    )
)
"""A prototype sent these kB for each text at that scale, over the same data, with steps made by hand where no rule of
it found them: counting first, filters by keys and by the results of sub-queries, partial aggregates, packed rows."""


_WHAT = (
    "Rows are dealt out among three sites by their number, so nothing that is joined lies together. *Without* filters "
    "the needed columns and rows of each table are gathered, equal rows once with their number where that is less "
    "(`SET key_filters = 'never'`); *with* them, rows without a partner stay (`bytes`). All tables were analysed "
    "before. Maps run at the sites of their splits. Bytes are those that routers received over links. *Best* is what "
    "a prototype sent of dbgen's tables at this scale, with steps put together by hand where no rule of it found them. "
    "The tables made up have the same sizes and other shares: one part in 90 is what Q17 asks for, and not one in "
    "1,000; there *best* is of other rows."
)


@dataclass(frozen=True, slots=True)
class Run:
    """One text under one setting."""

    link_bytes: int
    seconds: float
    wrong: str | None
    """How the result differs from DuckDB's."""


def main(scale: float, only: Sequence[str], record: Path | None) -> int:
    """Exit code: 1 when a result is not DuckDB's."""
    texts = {name: text for name, text in queries().items() if not only or name in only}
    found = {name: _measured(load(scale), texts) for name, load in SOURCES.items()}
    best = BEST_KB if scale == BEST_SCALE else {}
    tables = [part for name, runs in found.items() for part in (f"**{name}.**", *_parts(runs, best))]
    publish("tpch", f"TPC-H at scale {scale:g}", [_WHAT, *tables], record)
    return 1 if any(run.wrong for runs in found.values() for pair in runs.values() for run in pair) else 0


def _measured(db: duckdb.DuckDBPyConnection, texts: Mapping[str, str]) -> dict[str, tuple[Run, ...]]:
    """Each text under each setting, over tables that lie in DuckDB."""
    found: dict[str, tuple[Run, ...]] = {}
    with tempfile.TemporaryDirectory(prefix="selat-tpch-") as directory:
        root = Path(directory)
        write_shards(db, root / "input", SITES)
        (root / "topology.yaml").write_text(TOPOLOGY)
        options = ClusterOptions(allow_paths=(root,))
        with (
            DevCluster(root / "topology.yaml", root / "data", options) as cluster,
            selat.connect(cluster.address) as client,
        ):
            list(client.script(f"{declarations(root / 'input', SITES)} SET batch_scheduler = 'local'"))
            analyse(client)
            for name, text in texts.items():
                found[name] = tuple(_run(client, db, text, mode) for mode in MODES)
                shown = (f"{mode.value} {_shown(run)}" for mode, run in zip(MODES, found[name], strict=True))
                say(f"{name:>4} {', '.join(shown)}")
    return found


def analyse(client: selat.Client) -> None:
    """Let plans know how many different values columns have."""
    for name in TABLES:
        query = client.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
        assert isinstance(query, selat.Query)
        query.wait()
    while not all(any(row["item"] == "rows" for row in _described(client, name)) for name in TABLES):
        time.sleep(0.1)
    say("all tables are analysed")


def _described(client: selat.Client, name: str) -> selat.Rows:
    rows = client.sql(f"DESCRIBE TABLE {name}")
    assert isinstance(rows, selat.Rows)
    return rows


def _run(client: selat.Client, db: duckdb.DuckDBPyConnection, text: str, mode: KeyFilters) -> Run:
    client.sql(f"SET key_filters = '{mode.value}'")
    begun = time.monotonic()
    query = client.sql(text)
    assert isinstance(query, selat.Query)
    rows = [tuple(row.values()) for row in query.results().arrow().to_pylist()]
    seconds = time.monotonic() - begun
    link_bytes = query.wait().link_bytes
    return Run(link_bytes, seconds, difference(rows, db.execute(text).fetchall()))


def _shown(run: Run) -> str:
    return f"{run.link_bytes / 1000:.0f} kB in {run.seconds:.1f} s{f' DIFFERENT: {run.wrong}' if run.wrong else ''}"


def _parts(found: Mapping[str, tuple[Run, ...]], best_kb: Mapping[str, float]) -> list[str]:
    different = [name for name, runs in found.items() if any(run.wrong for run in runs)]
    rows = [
        [
            name,
            f"{plain.link_bytes / 1000:,.0f}",
            f"{filtered.link_bytes / 1000:,.0f}",
            f"{filtered.link_bytes / max(1, plain.link_bytes):.2f}",
            f"{best_kb[name]:g}" if name in best_kb else "",
            f"{plain.seconds:.1f}",
            f"{filtered.seconds:.1f}",
        ]
        for name, (plain, filtered) in found.items()
    ]
    totals = [sum(runs[number].link_bytes for runs in found.values()) for number in range(len(MODES))]
    ratio = mean([runs[1].link_bytes / max(1, runs[0].link_bytes) for runs in found.values()])
    over_best = mean([found[name][1].link_bytes / 1000 / best for name, best in best_kb.items() if name in found])
    best_of_all = f"{sum(best_kb[name] for name in found):g}" if best_kb else ""
    shown = [f"{total / 1000:,.0f}" for total in totals]
    rows.append(["all", *shown, f"{totals[1] / max(1, totals[0]):.2f}", best_of_all, "", ""])
    equal = f"{len(found) - len(different)} of {len(found)} texts have DuckDB's results both times"
    head = ["text", "kB without filters", "kB with filters by keys", "ratio", "best kB", "s without", "s with"]
    wanted = "wanted were 1.1 at most"
    verdict = f"Geometric mean of *with* over *best*: {over_best:.2f}; {wanted}." if best_kb else ""
    return [
        table(head, rows),
        f"{equal}. Geometric mean of the ratios: {ratio:.2f}. {verdict}".rstrip(),
    ]


def mean(ratios: Sequence[float]) -> float:
    """Geometric; not a number where there are none, or one is 0."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios and all(ratios) else math.nan


if __name__ == "__main__":
    arguments = make_text_parser(__doc__, scale=0.1, unit="6 million lines", example="Q3 Q4").parse_args()
    sys.exit(main(arguments.scale, arguments.only, arguments.record))
