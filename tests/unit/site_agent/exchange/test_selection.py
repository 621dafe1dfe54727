from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.channels.codec import decode
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import BinRange
from site_agent.channels.store import ChannelStore
from site_agent.exchange.selection import Selection, read_selected

TABLE = pa.table({"k": list("abcd"), "n": range(4), "_bin": pa.array([3, 1, 3, 1], pa.int32())})


@pytest.fixture
def log(tmp_path: Path) -> ChannelLog:
    log = ChannelStore(tmp_path).open("c")
    log.publish(0, TABLE, watermark_us=5, idle=True)
    return log


def test_everything_is_sent_as_it_is_stored(log: ChannelLog) -> None:
    assert read_selected(log, 0, Selection()) == log.epochs.read_encoded(0)


def test_a_reader_that_does_not_know_planes_is_sent_an_arrow_message(log: ChannelLog) -> None:
    manifest, encoded = read_selected(log, 0, Selection(planes=False))
    assert encoded is not None
    schema = pa.ipc.read_schema(pa.py_buffer(encoded.schema))
    raw = pa.decompress(encoded.payload, decompressed_size=manifest.raw_bytes, codec="zstd")
    assert pa.ipc.read_record_batch(raw, schema).to_pydict() == {"k": ["b", "d", "a", "c"], "n": [1, 3, 0, 2]}
    assert manifest.bins == (BinRange(1, 0, 2), BinRange(3, 2, 2))


def test_a_part_has_a_manifest_of_its_own(log: ChannelLog) -> None:
    manifest, encoded = read_selected(log, 0, Selection(columns=("n",), bins=(3,)))
    assert encoded is not None
    assert decode(encoded).to_pydict() == {"n": [0, 2]}
    assert (manifest.rows, manifest.bins) == (2, (BinRange(3, 0, 2),))
    assert (manifest.size_bytes, manifest.crc32) == (len(encoded.payload), encoded.crc32)
    assert (manifest.watermark_us, manifest.idle) == (5, True)


def test_columns_alone_leave_the_bins(log: ChannelLog) -> None:
    manifest, _ = read_selected(log, 0, Selection(columns=("k",)))
    assert manifest.bins == (BinRange(1, 0, 2), BinRange(3, 2, 2))


def test_no_rows_are_left_of_other_bins(log: ChannelLog) -> None:
    manifest, encoded = read_selected(log, 0, Selection(bins=(8,)))
    assert (encoded, manifest.rows, manifest.size_bytes, manifest.crc32, manifest.bins) == (None, 0, 0, 0, ())
    assert manifest.watermark_us == 5
