"""Epochs as small as can be, and what a reader of the directory finds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from site_agent.connectors.sinks import EpochRange, SinkCommit, SinkWriter

Epoch = tuple[str, int]


def rows_of(epochs: Iterable[Epoch]) -> pa.Table:
    """One row for each epoch, which tells where it is from."""
    listed = sorted(epochs)
    return pa.table({"channel": [c for c, _ in listed], "epoch": pa.array([e for _, e in listed], pa.int64())})


def commit_of(number: int, epochs: Iterable[Epoch]) -> SinkCommit:
    found: dict[str, list[int]] = {}
    for channel, epoch in epochs:
        found.setdefault(channel, []).append(epoch)
    return SinkCommit("q-1", number, {c: EpochRange(min(e), max(e) + 1) for c, e in found.items()})


def put(writer: SinkWriter, commit: SinkCommit, rows: pa.Table) -> int:
    """Encode and write a commit."""
    return writer.write(commit, writer.encode(commit, rows))


def seen(directory: Path) -> list[Epoch]:
    """As any reader that takes all `*.parquet` below the directory; a file that is half there fails."""
    epochs: list[Epoch] = []
    for path in sorted(directory.rglob("*.parquet")):
        table = pq.ParquetFile(path).read()
        channel = next((part.removeprefix("channel=") for part in path.parts if part.startswith("channel=")), "")
        channels = table.column("channel").to_pylist() if not channel else [channel] * table.num_rows
        epochs += zip(channels, table.column("epoch").to_pylist(), strict=True)
    return sorted(epochs)
