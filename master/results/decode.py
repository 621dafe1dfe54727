"""Decodes epochs, as the exchange sends them, to Arrow IPC streams."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.ipc as ipc

from contract.payload import decompress
from master.base.errors import CorruptResultsError
from selat.v1 import exchange_pb2


@dataclass(frozen=True, slots=True)
class SentEpoch:
    """A whole epoch as sent: `payload` has rows of that schema (`contract.payload`)."""

    channel: str
    epoch: int
    rows: int
    watermark_us: int | None
    schema: bytes
    """Empty until the channel has had rows."""
    payload: bytes
    raw_bytes: int


@dataclass(frozen=True, slots=True)
class EndOfChannel:
    channel: str
    successor: str = ""
    """The channel that has the epochs from `next_epoch` on; empty: there are none."""
    next_epoch: int = 0
    forks: Mapping[str, str] = field(default_factory=dict)
    """It has the channel in which a query's rows go on, by query, where that is not the successor."""

    def successor_for(self, query: str) -> str:
        """Return the channel in which the rows of a query go on; empty: there is none."""
        return self.forks.get(query, self.successor)


class EpochAssembler:
    """Assembles the parts of one call."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._schema = b""
        self._epoch: int | None = None
        self._pieces: list[bytes] = []

    def take(self, response: exchange_pb2.PullResponse) -> SentEpoch | EndOfChannel | None:
        """The epoch that this message completes, or the end; None while more is to come.

        Raises:
            CorruptResultsError: pieces are missing, or do not match the checksum.
        """
        kind = response.WhichOneof("message")
        if kind == "schema":
            self._schema = response.schema
            return None
        if kind == "end":
            end = response.end
            next_epoch = end.last_epoch + 1 if end.HasField("last_epoch") else 0
            forks = {end.fork.query_id: end.fork.channel} if end.HasField("fork") else {}
            return EndOfChannel(self._channel, end.successor_channel, next_epoch, forks)
        if kind != "part":
            return None
        return self._piece(response.part)

    def _piece(self, part: exchange_pb2.EpochPart) -> SentEpoch | None:
        if self._epoch not in (None, part.epoch):
            raise self._corrupt(part.epoch, f"epoch {self._epoch} broke off")
        self._epoch = part.epoch
        self._pieces.append(part.payload)
        return self._complete(part.manifest) if part.HasField("manifest") else None

    def _complete(self, manifest: exchange_pb2.EpochManifest) -> SentEpoch:
        payload = b"".join(self._pieces)
        epoch, self._epoch, self._pieces = self._epoch or 0, None, []
        if len(payload) != manifest.payload_bytes or zlib.crc32(payload) != manifest.payload_crc32:
            raise self._corrupt(epoch, "its checksum does not match")
        if payload and not self._schema:
            raise self._corrupt(epoch, "it came before its schema")
        return SentEpoch(
            channel=self._channel,
            epoch=epoch,
            rows=manifest.rows,
            watermark_us=manifest.watermark_us if manifest.HasField("watermark_us") else None,
            schema=self._schema,
            payload=payload,
            raw_bytes=manifest.raw_bytes,
        )

    def _corrupt(self, epoch: int, what: str) -> CorruptResultsError:
        return CorruptResultsError(
            f"epoch {epoch} of channel {self._channel} is damaged: {what}",
            hint="fetch again; if it stays, the gateway's disk may be failing",
            ids={"channel": self._channel, "epoch": str(epoch)},
        )


def arrow_stream(epoch: SentEpoch) -> bytes:
    """The epoch as an Arrow IPC stream: schema, one batch, end. Blocks while it decompresses.

    Raises:
        CorruptResultsError: the payload is not what the manifest says.
    """
    try:
        schema = ipc.read_schema(pa.py_buffer(epoch.schema))
        batches = [decompress(epoch.payload, epoch.raw_bytes, schema)] if epoch.payload else []
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptResultsError(
            f"epoch {epoch.epoch} of channel {epoch.channel} cannot be decoded: {error}",
            ids={"channel": epoch.channel, "epoch": str(epoch.epoch)},
        ) from error
    return bytes(sink.getvalue())
