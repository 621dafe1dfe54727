"""How large is an epoch? Partials of the demo's first query, in the format that is sent and in others.

python -m benchmarks.wire_format
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from selat.demo import oracle
from selat.demo.dataset import AIRPORTS, prepare

DAYS_PER_EPOCH = (1, 6, 30)

_PARTIALS = """
SELECT day_of(f.time_hour) AS day, a.name, sum(f.dep_delay)::BIGINT AS total, count(f.dep_delay) AS departures,
       count(*) AS flights, f.origin
FROM flights f JOIN airlines a ON f.carrier = a.carrier
GROUP BY ALL ORDER BY day, f.origin, a.name
"""
_DAY_US = 86_400 * 1_000_000


def main() -> None:
    """Prints mean bytes per epoch, one table for each length of an epoch."""
    with tempfile.TemporaryDirectory() as root, oracle.connect(prepare(Path(root)).root) as db:
        partials = db.sql(_PARTIALS).to_arrow_table()
    for days in DAYS_PER_EPOCH:
        batches = list(epochs(partials, days))
        rows = sum(batch.num_rows for batch in batches) / len(batches)
        print(f"{len(batches)} epochs, {rows:.0f} rows each")
        for name, encode in FORMATS.items():
            size_bytes = sum(len(encode(batch)) for batch in batches) / len(batches)
            print(f"  {size_bytes:8.0f}  {name}")


def epochs(partials: pa.Table, days: int) -> Iterator[pa.RecordBatch]:
    """Each airport's partials, so many days at a time."""
    instants = partials.column("day").cast(pa.int64())
    numbers = pc.divide(pc.subtract(instants, pc.min(instants)), days * _DAY_US)
    rows = partials.drop_columns(["origin"])
    for airport in AIRPORTS:
        here = pc.equal(partials.column("origin"), airport)
        for number in pc.unique(numbers).to_pylist():
            found = rows.filter(pc.and_(here, pc.equal(numbers, number))).combine_chunks()
            yield from found.to_batches()


def _stream(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _frame(codec: str, content: bytes) -> bytes:
    return bytes(pa.Codec(codec).compress(content))


def _parquet(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), sink, compression="zstd")
    return sink.getvalue()


FORMATS: Mapping[str, Callable[[pa.RecordBatch], bytes]] = {
    "Arrow IPC stream": _stream,
    "Arrow IPC stream, Arrow's own zstd per buffer": lambda batch: _stream(batch, "zstd"),
    "Arrow IPC stream in one zstd frame": lambda batch: _frame("zstd", _stream(batch)),
    "record batch without schema in one zstd frame": lambda batch: _frame("zstd", batch.serialize().to_pybytes()),
    "record batch without schema in one lz4 frame": lambda batch: _frame("lz4", batch.serialize().to_pybytes()),
    "Parquet, zstd": _parquet,
}


if __name__ == "__main__":
    main()
