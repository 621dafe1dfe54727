"""Epochs from pieces, and Arrow streams from epochs."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
import pytest

from master.base.errors import CorruptResultsError
from master.results.decode import EndOfChannel, EpochAssembler, SentEpoch, arrow_stream
from selat.v1.exchange_pb2 import EndOfChannel as EndMessage
from selat.v1.exchange_pb2 import EpochManifest, EpochPart, PullResponse

BATCH = pa.record_batch({"k": ["a", "b", None], "n": pa.array([1, 2, 3], pa.int64())})
SCHEMA = BATCH.schema.serialize().to_pybytes()
RAW = BATCH.serialize()
PAYLOAD = pa.compress(RAW, codec="zstd", asbytes=True)


def manifest(epoch: int = 4, payload: bytes = PAYLOAD, **values: Any) -> EpochManifest:
    filled: dict[str, Any] = {
        "rows": 3,
        "payload_crc32": zlib.crc32(payload),
        "payload_bytes": len(payload),
        "raw_bytes": RAW.size,
    }
    return EpochManifest(epoch=epoch, **(filled | values))


def messages(*, pieces: int = 1, epoch: int = 4, schema: bool = True, **values: Any) -> list[PullResponse]:
    size = -(-len(PAYLOAD) // pieces)
    parts = [EpochPart(epoch=epoch, payload=PAYLOAD[at : at + size]) for at in range(0, len(PAYLOAD), size)]
    parts[-1].manifest.CopyFrom(manifest(epoch, **values))
    first = [PullResponse(schema=SCHEMA)] if schema else []
    return first + [PullResponse(part=part) for part in parts]


def assembled(*responses: PullResponse) -> list[SentEpoch | EndOfChannel]:
    assembler = EpochAssembler("c")
    return [item for response in responses if (item := assembler.take(response)) is not None]


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_an_epoch_is_put_together_from_its_pieces(pieces: int) -> None:
    (epoch,) = assembled(*messages(pieces=pieces, watermark_us=12))
    assert isinstance(epoch, SentEpoch)
    assert (epoch.channel, epoch.epoch, epoch.rows, epoch.watermark_us) == ("c", 4, 3, 12)
    with pa.ipc.open_stream(arrow_stream(epoch)) as reader:
        assert reader.read_all() == pa.Table.from_batches([BATCH])


def test_the_schema_stays_for_later_epochs_and_the_end_is_told() -> None:
    items = assembled(*messages(), *messages(epoch=5, schema=False), PullResponse(end=EndMessage(last_epoch=5)))
    assert [i.epoch for i in items if isinstance(i, SentEpoch)] == [4, 5]
    assert items[-1] == EndOfChannel("c", next_epoch=6)


def test_an_epoch_without_rows_is_an_empty_stream_of_the_schema() -> None:
    empty = PullResponse(part=EpochPart(epoch=5, manifest=manifest(5, b"", rows=0, raw_bytes=0, watermark_us=3)))
    epoch = assembled(*messages(), empty)[1]
    assert isinstance(epoch, SentEpoch)
    with pa.ipc.open_stream(arrow_stream(epoch)) as reader:
        assert reader.schema == BATCH.schema
        assert reader.read_all().num_rows == 0


def test_an_epoch_without_rows_needs_no_schema() -> None:
    (epoch,) = assembled(PullResponse(part=EpochPart(epoch=0, manifest=manifest(0, b"", rows=0, raw_bytes=0))))
    assert isinstance(epoch, SentEpoch)
    assert (epoch.schema, epoch.watermark_us) == (b"", None)


@pytest.mark.parametrize(
    ("responses", "what"),
    [
        (messages(payload_crc32=1), "checksum"),
        (messages(payload_bytes=1), "checksum"),
        (messages(schema=False), "before its schema"),
        ([*messages(pieces=2)[:2], *messages(epoch=5, schema=False)], "broke off"),
    ],
)
def test_damage_is_noticed(responses: list[PullResponse], what: str) -> None:
    with pytest.raises(CorruptResultsError, match=what) as caught:
        assembled(*responses)
    assert caught.value.ids["channel"] == "c"


@pytest.mark.parametrize("raw_bytes", [RAW.size - 8, 0])
def test_a_payload_that_is_not_what_its_manifest_says_is_noticed(raw_bytes: int) -> None:
    with pytest.raises(CorruptResultsError, match="cannot be decoded"):
        arrow_stream(SentEpoch("c", 4, 3, None, SCHEMA, PAYLOAD, raw_bytes))
