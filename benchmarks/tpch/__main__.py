"""TPC-H's 22 texts over three shards on a real cluster, each beside DuckDB's result and time.

    python -m benchmarks.tpch [--scale 0.1] [--only Q3 Q4]

The data are made up (`benchmarks.tpch.data`). One process has the agents of all sites, with a JVM that they share, so
the times are those of a machine, not of a WAN. Exits with 1 when a result differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import selat
from benchmarks.tpch import queries
from benchmarks.tpch.answers import difference
from benchmarks.tpch.data import declarations, load, write_shards
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions

SITES = ("us", "eu", "asia")
TOPOLOGY = """
gateway: us
sites: {us: {slots: 2}, eu: {slots: 2}, asia: {slots: 2}}
default_link: {bandwidth: 1000Mbit/s, latency: 1ms}
"""


def main(scale: float, only: list[str]) -> int:
    """Exit code: 1 when a result is not DuckDB's."""
    texts = {name: text for name, text in queries().items() if not only or name in only}
    with tempfile.TemporaryDirectory(prefix="selat-tpch-") as directory:
        root = Path(directory)
        db = load(scale)
        write_shards(db, root / "input", SITES)
        (root / "topology.yaml").write_text(TOPOLOGY)
        options = ClusterOptions(allow_paths=(root,))
        different = 0
        with (
            DevCluster(root / "topology.yaml", root / "data", options) as cluster,
            selat.connect(cluster.address) as client,
        ):
            list(client.script(declarations(root / "input", SITES)))
            for name, text in texts.items():
                begun = time.monotonic()
                wanted = db.execute(text).fetchall()
                duckdb_s, begun = time.monotonic() - begun, time.monotonic()
                found = difference(_answer(client, text), wanted)
                ours_s = time.monotonic() - begun
                different += found is not None
                say = "equal" if found is None else f"DIFFERENT: {found}"
                print(f"{name:>4} {len(wanted):6} rows {ours_s:6.1f} s, DuckDB {duckdb_s:5.2f} s  {say}", flush=True)
    print(f"{len(texts) - different} of {len(texts)} texts equal DuckDB's results at scale {scale:g}")
    return 1 if different else 0


def _answer(client: selat.Client, text: str) -> list[tuple[object, ...]]:
    query = client.sql(text)
    assert isinstance(query, selat.Query)
    return [tuple(row.values()) for row in query.results().arrow().to_pylist()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1, help="1: 6 million lines")
    parser.add_argument("--only", nargs="*", default=[], help="as in Q3 Q4; default: all")
    arguments = parser.parse_args()
    sys.exit(main(arguments.scale, arguments.only))
