"""Rows of a job as they come from Spark's socket: in memory, or in a file where they are many."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from pyspark.serializers import write_int

from site_agent.engine.output.collect import ArrowRows


def sent(batches: list[pa.RecordBatch], order: list[int]) -> io.BytesIO:
    """What the JVM sends: batches as their partitions end, then their places."""
    stream = io.BytesIO()
    with ipc.new_stream(stream, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    for number in (len(order), *order):
        write_int(number, stream)
    stream.seek(0)
    return stream


def numbers(first: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + 10))})


@pytest.mark.parametrize("held_bytes", [10**6, 100, 0])
def test_batches_are_put_in_order_wherever_they_are(tmp_path: Path, held_bytes: int) -> None:
    stream = sent([numbers(20), numbers(0), numbers(10)], [1, 2, 0])
    found = pa.Table.from_batches(ArrowRows(tmp_path, held_bytes).load_stream(stream))
    assert found.column("n").to_pylist() == list(range(30))
    assert list(tmp_path.iterdir()) == []


def test_rows_beyond_what_is_held_are_not_in_memory(tmp_path: Path) -> None:
    batches = [pa.record_batch({"n": pa.array(range(n, n + 100_000))}) for n in range(5)]
    stream = sent(batches, list(range(5)))
    del batches
    before = pa.total_allocated_bytes()
    found = pa.Table.from_batches(ArrowRows(tmp_path, 1_000_000).load_stream(stream))
    assert found.nbytes == 4_000_000
    assert pa.total_allocated_bytes() - before < 1_000_000
