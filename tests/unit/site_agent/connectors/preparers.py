"""Stands in for the engine that sorts files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from site_agent.engine import MALFORMED_NAME, FilesScan, MalformedRow
from site_agent.engine.scans.malformed import write_malformed

TIMESTAMP = pa.timestamp("us", tz="UTC")


class LinesPreparer:
    """Sorts files whose lines are an event time in seconds, or nothing; `v` is the row's number. Three rows a part.

    Lines that begin with ? are malformed.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def prepare(self, scan: FilesScan, event_time: str, directory: Path) -> None:
        self.calls.append(scan.paths)
        found = [(path, line) for path in scan.paths for line in Path(path).read_text().splitlines()]
        lines = [line for _, line in found if not line.startswith("?")]
        bad = [MalformedRow(path, "no number", line) for path, line in found if line.startswith("?")]
        if bad:
            write_malformed(directory / MALFORMED_NAME, iter(bad))
        times = [int(line) * 1_000_000 if line else None for line in lines]
        table = pa.table({event_time: pa.array(times, TIMESTAMP), "v": pa.array(range(len(lines)))})
        order = pc.sort_indices(table, sort_keys=[(event_time, "ascending", "at_start")])
        ordered = table.take(order)
        for number, start in enumerate(range(0, ordered.num_rows, 3)):
            pq.write_table(ordered.slice(start, 3), directory / f"part-00000-x.c{number:03d}.snappy.parquet")
