"""Batches of results."""

from __future__ import annotations

import pyarrow as pa

from contract.payload import decompress
from selat.errors import ServerFault
from selat.v1 import query_pb2


def record_batch(message: query_pb2.FetchResultsResponse) -> pa.RecordBatch:
    """An epoch's rows, from either form in which a master sends them.

    Raises ServerFault when the data cannot be decoded.
    """
    try:
        return _decompressed(message) if message.schema else _whole_stream(message.arrow_stream)
    except (pa.ArrowException, OSError, ValueError) as error:
        text = f"epoch {message.epoch} of channel {message.channel} cannot be decoded: {error}"
        raise ServerFault(text) from None


def _decompressed(message: query_pb2.FetchResultsResponse) -> pa.RecordBatch:
    schema = pa.ipc.read_schema(pa.py_buffer(message.schema))
    if not message.payload:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return decompress(message.payload, message.raw_bytes, schema)


def _whole_stream(ipc_stream: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(ipc_stream) as reader:
        batches = list(reader)
        if len(batches) == 1:
            return batches[0]
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=reader.schema)
    return pa.concat_batches(batches)
