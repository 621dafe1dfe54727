"""How large is an epoch? Partials of the demo's first query, in the format that is sent and in others.

python -m benchmarks.wire_format [--record FILE]
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.report import make_parser, publish, table
from contract.payload import compress
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


def main() -> int:
    """Mean bytes per epoch, a column for each length of an epoch."""
    arguments = make_parser(__doc__).parse_args()
    partials = airport_partials()
    sizes: dict[str, list[str]] = {name: [] for name in FORMATS}
    head = ["mean bytes of an epoch of"]
    for days in DAYS_PER_EPOCH:
        batches = list(epochs(partials, days))
        head.append(f"{sum(batch.num_rows for batch in batches) / len(batches):.0f} rows")
        for name, encode in FORMATS.items():
            sizes[name].append(f"{sum(len(encode(batch)) for batch in batches) / len(batches):,.0f}")
    parts = [table(head, [[name, *found] for name, found in sizes.items()]), f"What crosses the WAN is the {SENT}."]
    publish("wire_format", "Size of an epoch in other formats", parts, arguments.record)
    return 0


def airport_partials() -> pa.Table:
    """All partial rows of the query, ordered by day and airport."""
    with tempfile.TemporaryDirectory() as root, oracle.connect(prepare(Path(root)).root) as db:
        return db.sql(_PARTIALS).to_arrow_table()


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


def stream(batches: Sequence[pa.RecordBatch], compression: str | None = None) -> bytes:
    """One Arrow IPC stream."""
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def _frame(codec: str, content: bytes) -> bytes:
    return bytes(pa.Codec(codec).compress(content))


def _parquet(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), sink, compression="zstd")
    return sink.getvalue()


LEVEL = 3
"""Of epochs."""
SENT = "rows by planes in one zstd frame"
FORMATS: Mapping[str, Callable[[pa.RecordBatch], bytes]] = {
    "Arrow IPC stream": lambda batch: stream([batch]),
    "Arrow IPC stream, Arrow's own zstd per buffer": lambda batch: stream([batch], "zstd"),
    "Arrow IPC stream in one zstd frame": lambda batch: _frame("zstd", stream([batch])),
    "record batch without schema in one zstd frame": lambda batch: compress(batch, level=LEVEL, planes=False).frame,
    SENT: lambda batch: compress(batch, level=LEVEL).frame,
    "record batch without schema in one lz4 frame": lambda batch: _frame("lz4", batch.serialize().to_pybytes()),
    "Parquet, zstd": _parquet,
}


if __name__ == "__main__":
    sys.exit(main())
