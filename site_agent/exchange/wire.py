"""Converts PullResponse to bytes and back without protobuf copying the payload.

A payload set in or read from a protobuf message is copied four times on either side, which costs more than gRPC itself.
Here a large payload is put behind the rest of its message, and cut out of it before protobuf looks at it. The bytes are
those of a PullResponse all the same: of a message that occurs twice, protobuf merges the parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import grpc.aio
from google.protobuf.message import DecodeError

from selat.v1 import exchange_pb2 as pb

SERVICE = "selat.v1.ExchangeService"

Response = pb.PullResponse | bytes
"""As bytes, it is serialized already."""
Payload = bytes | memoryview

_LARGE_BYTES = 16 * 1024
"""Below this size, copying is cheaper than avoiding it."""
_PAYLOAD = (pb.PullResponse.PART_FIELD_NUMBER, pb.EpochPart.PAYLOAD_FIELD_NUMBER)
_LENGTH_DELIMITED = 2
_VARINT_BITS = 7


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message that arrived; a large payload is taken out of `message`."""

    message: pb.PullResponse
    payload: Payload


PullCall = grpc.aio.StreamStreamCall[pb.PullRequest, bytes]


def pull_call(connection: grpc.aio.Channel) -> PullCall:
    """Begin a call of Pull; its responses are for `parse`."""
    method = connection.stream_stream(f"/{SERVICE}/Pull", pb.PullRequest.SerializeToString, None)
    call: PullCall = method(None)
    return call


def part_of_epoch(
    epoch: int, payload: Payload, manifest: pb.EpochManifest | None = None, *, idle_us: int | None = None
) -> Response:
    """A part of an epoch; the last one has the manifest."""
    part = pb.EpochPart(epoch=epoch, manifest=manifest, idle_us=idle_us)
    if len(payload) < _LARGE_BYTES:
        part.payload = bytes(payload)
        return pb.PullResponse(part=part)
    head = pb.PullResponse(part=part).SerializeToString()
    outer, inner = (_tag(number) for number in _PAYLOAD)
    prefix = inner + _varint(len(payload))
    return b"".join((head, outer, _varint(len(prefix) + len(payload)), prefix, payload))


def serialize(response: Response) -> bytes:
    return response if isinstance(response, bytes) else response.SerializeToString()


def parse(data: bytes) -> Incoming:
    """The message in these bytes. Raises DecodeError when they are no PullResponse."""
    if len(data) < _LARGE_BYTES:
        message = pb.PullResponse.FromString(data)
        return Incoming(message, message.part.payload)
    try:
        rest, payload = _lift(memoryview(data), _PAYLOAD)
    except (IndexError, ValueError) as error:
        raise DecodeError(f"no PullResponse: {error}") from error
    return Incoming(pb.PullResponse.FromString(b"".join(rest)), payload)


def _lift(message: memoryview, path: tuple[int, ...]) -> tuple[list[Payload], Payload]:
    """A serialized message without the bytes field at `path`, and that field: the last occurrence counts, as in
    protobuf."""
    rest: list[Payload] = []
    lifted: Payload = b""
    for tag, start, value, end in _fields(message):
        if tag != path[0] << 3 | _LENGTH_DELIMITED:
            rest.append(message[start:end])
        elif len(path) == 1:
            lifted = message[value:end]
        else:
            inner, found = _lift(message[value:end], path[1:])
            lifted = found or lifted
            rest += [_tag(path[0]), _varint(sum(map(len, inner))), *inner]
    return rest, lifted


def _fields(message: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Tag, start, start of the value and end of each field. Raises IndexError or ValueError."""
    start = 0
    while start < len(message):
        tag, value = _read_varint(message, start)
        kind = tag & 0b111
        if kind == _LENGTH_DELIMITED:
            length, value = _read_varint(message, value)
            end = value + length
        elif kind == 0:
            _, end = _read_varint(message, value)
        else:
            end = value + {1: 8, 5: 4}[kind] if kind in (1, 5) else len(message) + 1
        if end > len(message):
            raise ValueError(f"field {tag >> 3} does not end")
        yield tag, start, value, end
        start = end


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 10 * _VARINT_BITS, _VARINT_BITS):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number does not end")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= _VARINT_BITS
    encoded.append(value)
    return bytes(encoded)


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED)
