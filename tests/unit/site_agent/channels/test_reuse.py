"""Epochs that are found again by what is in them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.channels.codec import decode
from site_agent.channels.log import ChannelLog
from site_agent.channels.reuse import ReusableRows, digest_of
from site_agent.channels.store import ChannelStore

ROWS = pa.table({"n": range(1000)})


@pytest.fixture
def store(tmp_path: Path) -> ChannelStore:
    return ChannelStore(tmp_path / "channels")


def published(store: ChannelStore, name: str, rows: pa.Table) -> tuple[ChannelLog, bytes]:
    log = store.open(name)
    log.publish(0, rows, watermark_us=None)
    _, encoded = log.epochs.read_encoded(0)
    assert encoded is not None
    return log, digest_of(encoded)


def test_rows_stay_when_their_channel_goes(store: ChannelStore, tmp_path: Path) -> None:
    rows = ReusableRows(tmp_path / "reuse")
    log, digest = published(store, "q1.map", ROWS)
    rows.put(log, 0, digest)
    rows.put(log, 0, digest)
    store.remove("q1.map")
    found = rows.get(digest)
    assert found is not None
    assert decode(found).equals(ROWS)
    assert 0 < rows.size_bytes < 10_000
    assert (digest in rows, b"other" in rows, rows.get(b"other")) == (True, False, None)


def test_equal_rows_have_one_digest_and_others_have_others(store: ChannelStore) -> None:
    tables = (ROWS, ROWS, ROWS.rename_columns(["m"]), ROWS.slice(1), ROWS.cast(pa.schema({"n": pa.int32()})))
    digests = [published(store, f"q{number}", rows)[1] for number, rows in enumerate(tables)]
    assert (digests[0] == digests[1], len(set(digests))) == (True, 4)


def test_what_was_not_used_for_longest_goes(store: ChannelStore, tmp_path: Path) -> None:
    logs = [published(store, f"q{number}", pa.table({"n": [number]})) for number in range(3)]
    size_bytes = logs[0][0].epochs.stored_bytes(0)
    rows = ReusableRows(tmp_path / "reuse", budget_bytes=2 * size_bytes + 10)
    for log, digest in logs[:2]:
        rows.put(log, 0, digest)
    assert rows.get(logs[0][1]) is not None
    rows.put(logs[2][0], 0, logs[2][1])
    assert [digest in rows for _, digest in logs] == [True, False, True]
    assert len(list((tmp_path / "reuse").iterdir())) == 2


def test_damaged_rows_are_not_given_out(store: ChannelStore, tmp_path: Path) -> None:
    rows = ReusableRows(tmp_path / "reuse")
    log, digest = published(store, "q1", ROWS)
    rows.put(log, 0, digest)
    (file,) = (tmp_path / "reuse").iterdir()
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.unlink()
    file.write_bytes(data)
    assert rows.get(digest) is None
    assert (digest in rows, rows.size_bytes, list((tmp_path / "reuse").iterdir())) == (False, 0, [])


def test_a_process_begins_without_rows(store: ChannelStore, tmp_path: Path) -> None:
    log, digest = published(store, "q1", ROWS)
    ReusableRows(tmp_path / "reuse").put(log, 0, digest)
    rows = ReusableRows(tmp_path / "reuse")
    assert (digest in rows, list((tmp_path / "reuse").iterdir())) == (False, [])


def test_a_disk_that_refuses_is_no_error(store: ChannelStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    rows = ReusableRows(tmp_path / "file" / "reuse")
    log, digest = published(store, "q1", ROWS)
    rows.put(log, 0, digest)
    assert digest not in rows
