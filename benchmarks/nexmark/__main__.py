"""NEXMark's texts over three sites on a real cluster, one after the other: rows, bytes over links, seconds.

    python -m benchmarks.nexmark [--scale 5] [--only q5 q8] [--record FILE]

Each result is compared with DuckDB's over all input rows. One process has the agents of all sites, with a JVM that they
share, and links are not slowed down: times are those of a machine, not of a WAN. All rows are due at once. Exits with 1
when a result differs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

import selat
from benchmarks.nexmark import Text, queries
from benchmarks.nexmark.answers import declare, load, submit, wrong
from benchmarks.report import make_text_parser, publish, say, table
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions

TOPOLOGY = """
gateway: us
sites: {us: {slots: 2}, eu: {slots: 2}, asia: {slots: 2}}
default_link: {bandwidth: 1000Mbit/s, latency: 1ms}
"""


@dataclass(frozen=True, slots=True)
class Run:
    rows_in: int
    rows_out: int
    link_bytes: int
    seconds: float
    wrong: str | None


def main(scale: int, only: Sequence[str], record: Path | None) -> int:
    """Exit code: 1 when a result is not DuckDB's."""
    texts = [text for name, text in queries().items() if not only or name in only]
    found: dict[str, Run] = {}
    with tempfile.TemporaryDirectory(prefix="selat-nexmark-") as directory:
        root = Path(directory)
        (root / "topology.yaml").write_text(TOPOLOGY)
        options = ClusterOptions(allow_paths=(root,))
        with (
            DevCluster(root / "topology.yaml", root / "data", options) as cluster,
            selat.connect(cluster.address) as client,
        ):
            declare(client, root / "log", scale=scale)
            db = load(client)
            say("DuckDB has the rows of all streams")
            for text in texts:
                found[text.name] = run = _run(client, db, text, root / "log")
                say(f"{text.name:>4} {run}")
    differing = [name for name, run in found.items() if run.wrong is not None]
    publish("nexmark", f"NEXMark, {scale * 2} minutes of events", _parts(found, differing), record)
    return 1 if differing else 0


def _run(client: selat.Client, db: duckdb.DuckDBPyConnection, text: Text, log: Path) -> Run:
    begun = time.monotonic()
    query = submit(client, text.sql)
    info = query.wait()
    seconds = time.monotonic() - begun
    return Run(info.rows_in, info.rows_out, info.link_bytes, seconds, wrong(text, query, db, log))


def _parts(found: Mapping[str, Run], differing: Sequence[str]) -> list[str]:
    rows = [
        [name, f"{run.rows_in:,}", f"{run.rows_out:,}", f"{run.link_bytes / 1000:,.0f}", f"{run.seconds:.1f}"]
        for name, run in found.items()
    ]
    verdict = f"Not as they should be: {', '.join(differing)}." if differing else "Every result is DuckDB's."
    return [table(["text", "rows in", "rows out", "kB over links", "s"], rows), verdict]


if __name__ == "__main__":
    unit = "two minutes of 50 events per second and site"
    arguments = make_text_parser(__doc__, scale=5, unit=unit, example="q5 q8").parse_args()
    sys.exit(main(arguments.scale, arguments.only, arguments.record))
