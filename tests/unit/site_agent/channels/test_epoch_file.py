from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.base.errors import CorruptEpochError
from site_agent.channels.codec import encode
from site_agent.channels.epoch_file import EpochHeader, pack, read_epoch, read_header
from site_agent.channels.manifest import BinRange, EpochManifest

ENCODED = encode(pa.table({"n": range(1000)}))


def header(*, bins: int = 2) -> EpochHeader:
    manifest = EpochManifest(
        epoch=7,
        rows=ENCODED.rows,
        size_bytes=len(ENCODED.payload),
        crc32=ENCODED.crc32,
        watermark_us=-5,
        idle=True,
        bins=tuple(BinRange(b, b, 1) for b in range(bins)),
        commit={"offset": {"file": "a.csv", "row": 3}, "rows": 12},
        raw_bytes=ENCODED.raw_bytes,
    )
    return EpochHeader(manifest, len(ENCODED.schema), rows_before=41)


@pytest.mark.parametrize("bins", [0, 2, 4096])
def test_header_and_rows_come_back(tmp_path: Path, bins: int) -> None:
    path = tmp_path / "000000000007.epoch"
    path.write_bytes(b"".join(pack(header(bins=bins), ENCODED)))
    assert read_epoch(path) == (header(bins=bins), ENCODED)
    assert read_header(path) == header(bins=bins)


def test_an_epoch_without_rows_is_its_header(tmp_path: Path) -> None:
    empty = EpochHeader(EpochManifest(0, 0, 0, 0, None, False, ()), 0, 0)
    path = tmp_path / "e"
    path.write_bytes(b"".join(pack(empty, None)))
    assert read_epoch(path) == (empty, None)


def test_every_cut_and_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    data = b"".join(pack(header(), ENCODED))
    head = len(data) - len(ENCODED.payload) - len(ENCODED.schema)
    path = tmp_path / "e"
    damaged = [data[:length] for length in (0, 3, 11, 12, 40, head - 1, len(data) - 1)]
    damaged += [data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :] for at in range(len(data))]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(CorruptEpochError, match="epoch file e of channel"):
            read_epoch(path)


def test_a_missing_file_is_corruption(tmp_path: Path) -> None:
    with pytest.raises(CorruptEpochError) as caught:
        read_header(tmp_path / "q.s.ewr" / "000000000001.epoch")
    assert caught.value.ids == {"channel": "q.s.ewr", "epoch": "1", "file": "000000000001.epoch"}
