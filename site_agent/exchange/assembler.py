"""Assembles epochs from the messages of one Pull call."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from selat.v1 import exchange_pb2 as pb
from site_agent.base.errors import CorruptEpochError
from site_agent.channels.codec import EncodedRows
from site_agent.channels.manifest import EndMark, EpochManifest, Standing
from site_agent.exchange.convert import end_from_proto, manifest_from_proto, standing_from_proto
from site_agent.exchange.wire import Payload, parse


@dataclass(frozen=True, slots=True)
class ReceivedEpoch:
    """A whole epoch. Its checksum is not verified yet: `verify` takes time, and belongs in a thread."""

    manifest: EpochManifest
    encoded: EncodedRows | None
    sent: bool = True
    """False: the rows were here."""

    @property
    def sent_bytes(self) -> int:
        """The payload as it came."""
        return self.manifest.size_bytes if self.sent else 0


@dataclass(frozen=True, slots=True)
class Offer:
    """The rows of the epoch that comes next, which are to be sent unless they are here."""

    epoch: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class KnownEpoch:
    """An epoch whose rows were not sent, because they are here."""

    manifest: EpochManifest
    digest: bytes


class EpochAssembler:
    """Takes every message of a call, in order. After an error, end the call and ask again for `next_epoch`."""

    def __init__(self, channel: str, next_epoch: int) -> None:
        self.next_epoch = next_epoch
        self.sender_idle_s: float | None = None
        """How long the sender had nothing to send before the last message; None: it does not say."""
        self._channel = channel
        self._schema = b""
        self._pieces: list[Payload] = []

    @property
    def in_epoch(self) -> bool:
        """Whether the rest of an epoch is still to come."""
        return bool(self._pieces)

    def feed(self, data: bytes) -> ReceivedEpoch | KnownEpoch | Offer | EndMark | Standing | None:
        """The epoch that the message completes, if it completes one.

        Raises:
            CorruptEpochError: a wrong length or order, or no message at all.
        """
        try:
            incoming = parse(data)
        except DecodeError as error:
            raise self._corrupt(str(error)) from error
        response = incoming.message
        kind = response.WhichOneof("message")
        self.sender_idle_s = None
        if kind == "part":
            self.sender_idle_s = response.part.idle_us / 1e6 if response.part.HasField("idle_us") else None
            return self._part(response.part, incoming.payload)
        if kind == "schema":
            self._schema = response.schema
            return None
        if kind == "standing":
            return standing_from_proto(response.standing)
        if kind == "offer":
            return Offer(response.offer.epoch, response.offer.sha256)
        if kind != "end":
            raise self._corrupt("an empty message came")
        end = end_from_proto(response.end)
        last_epoch = self.next_epoch - 1 if self.next_epoch else None
        if self._pieces or end.last_epoch != last_epoch:
            raise self._corrupt(f"it ends after {end.last_epoch}, but {last_epoch} was the last one received")
        return end

    def _part(self, part: pb.EpochPart, payload: Payload) -> ReceivedEpoch | KnownEpoch | None:
        if part.epoch != self.next_epoch:
            raise self._corrupt(f"epoch {part.epoch} came")
        if payload:
            self._pieces.append(payload)
        if not part.HasField("manifest"):
            return None
        manifest = manifest_from_proto(part.manifest)
        if part.sha256:
            if self._pieces or manifest.epoch != self.next_epoch:
                raise self._corrupt("rows came that were here")
            self.next_epoch += 1
            return KnownEpoch(manifest, part.sha256)
        received = ReceivedEpoch(manifest, self._rows(manifest))
        self._pieces = []
        self.next_epoch += 1
        return received

    def _rows(self, manifest: EpochManifest) -> EncodedRows | None:
        payload = b"".join(self._pieces)
        if len(payload) != manifest.size_bytes or manifest.epoch != self.next_epoch:
            raise self._corrupt(f"{len(payload)} bytes came instead of {manifest.size_bytes}")
        if not manifest.rows:
            return None
        if not self._schema:
            raise self._corrupt("rows came before their schema")
        return EncodedRows(self._schema, payload, manifest.raw_bytes, manifest.rows, manifest.crc32)

    def _corrupt(self, reason: str) -> CorruptEpochError:
        return CorruptEpochError(
            f"channel {self._channel} was received wrongly at epoch {self.next_epoch}: {reason}",
            ids={"channel": self._channel, "epoch": str(self.next_epoch)},
        )
