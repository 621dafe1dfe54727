from __future__ import annotations

import pyarrow as pa
import pytest

import selat
from selat.convert import results
from selat.v1 import query_pb2


@pytest.mark.parametrize("sizes", [[], [2], [2, 0, 3]])
def test_a_stream_of_any_number_of_batches_is_one_batch(sizes: list[int]) -> None:
    schema = pa.schema([("x", pa.int64())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for size in sizes:
            writer.write_batch(pa.RecordBatch.from_pydict({"x": list(range(size))}, schema=schema))
    batch = results.record_batch(query_pb2.FetchResultsResponse(arrow_stream=bytes(sink.getvalue())))
    assert batch.schema == schema
    assert batch.column("x").to_pylist() == [i for size in sizes for i in range(size)]


@pytest.mark.parametrize("rows", [0, 3])
def test_rows_that_come_compressed_are_a_batch(rows: int) -> None:
    whole = pa.record_batch({"x": pa.array(range(rows), pa.int64())})
    raw = whole.serialize()
    message = query_pb2.FetchResultsResponse(epoch=4, channel="c", schema=whole.schema.serialize().to_pybytes())
    if rows:
        message.payload, message.raw_bytes = pa.compress(raw, codec="zstd", asbytes=True), raw.size
    assert results.record_batch(message) == whole


def test_rows_that_are_no_arrow_are_a_fault_that_names_their_epoch() -> None:
    schema = pa.schema({"x": pa.int64()}).serialize().to_pybytes()
    for message in (
        query_pb2.FetchResultsResponse(epoch=4, channel="c", schema=schema, payload=b"junk", raw_bytes=100),
        query_pb2.FetchResultsResponse(epoch=4, channel="c", schema=b"junk", payload=b"junk", raw_bytes=100),
        query_pb2.FetchResultsResponse(epoch=4, channel="c", arrow_stream=b"junk"),
    ):
        with pytest.raises(selat.ServerFault, match="epoch 4 of channel c cannot be decoded"):
            results.record_batch(message)
