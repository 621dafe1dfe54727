"""Tests Arrow as messages, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from master.base.errors import InvalidRequestError
from master.flight.messages import BATCH_BYTES, batch_messages, rows_of, schema_bytes, schema_message
from master.flight.protocol import flight_pb2 as flight

ROWS = pa.record_batch(
    {
        "n": pa.array([1, None, 3], pa.int64()),
        "words": pa.array([["a", None], [], None], pa.list_(pa.string())),
        "at": pa.array([0, 1, None], pa.timestamp("us", tz="UTC")),
    }
)


def test_rows_come_back_as_they_were() -> None:
    messages = [schema_message(ROWS.schema), *batch_messages(ROWS), *batch_messages(ROWS.slice(1, 1))]
    assert rows_of(messages) == [ROWS, ROWS.slice(1, 1)]
    assert rows_of([schema_message(ROWS.schema)]) == []
    assert rows_of([]) == []


def test_large_batches_are_sent_in_parts() -> None:
    rows = pa.record_batch({"n": pa.array(range(1_000_000), pa.int64())})
    messages = list(batch_messages(rows))
    assert len(messages) == -(-rows.nbytes // BATCH_BYTES)
    assert all(len(message.data_body) <= 1.1 * BATCH_BYTES for message in messages)
    assert pa.Table.from_batches(rows_of([schema_message(rows.schema), *messages])).combine_chunks().to_batches() == [
        rows
    ]


def test_a_schema_is_an_ipc_message() -> None:
    assert pa.ipc.read_schema(pa.py_buffer(schema_bytes(ROWS.schema))) == ROWS.schema


@pytest.mark.parametrize("data", [b"", b"x" * 40])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be read"):
        rows_of([flight.FlightData(data_header=data, data_body=b"y")])
