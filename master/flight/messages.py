"""Arrow as messages of the protocol, and back.

Flight sends the head and the body of each IPC message apart; an IPC stream has them one behind the other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import pyarrow as pa

from master.base.errors import InvalidRequestError
from master.flight.protocol import flight_pb2 as flight

BATCH_BYTES = 2 * 1024 * 1024
"""About so much is in one message: clients take 4 MB at least."""
_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + bytes(4)
_PREFIX = struct.Struct("<4si")


def schema_bytes(schema: pa.Schema) -> bytes:
    """Return the schema as an IPC message."""
    return bytes(schema.serialize().to_pybytes())


def schema_message(schema: pa.Schema) -> flight.FlightData:
    """Return the first message of rows."""
    return _message(schema_bytes(schema))


def batch_messages(batch: pa.RecordBatch) -> Iterator[flight.FlightData]:
    """Yield the messages of rows, each of about `BATCH_BYTES`."""
    rows = max(1, batch.num_rows * BATCH_BYTES // max(1, batch.nbytes))
    for first in range(0, batch.num_rows, rows):
        yield _message(batch.slice(first, rows).serialize().to_pybytes())


def rows_of(messages: Iterable[flight.FlightData]) -> list[pa.RecordBatch]:
    """Return the rows that a client sent. Raises InvalidRequestError."""
    parts = [_PREFIX.pack(_CONTINUES, len(m.data_header)) + m.data_header + m.data_body for m in messages]
    if not parts:
        return []
    try:
        with pa.ipc.open_stream(b"".join((*parts, _END))) as reader:
            return list(reader)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequestError(f"the rows cannot be read: {error}", hint="send them as Arrow's IPC") from error


def _message(encapsulated: bytes) -> flight.FlightData:
    _, size = _PREFIX.unpack_from(encapsulated)
    head = _PREFIX.size + size
    return flight.FlightData(data_header=encapsulated[_PREFIX.size : head], data_body=encapsulated[head:])
