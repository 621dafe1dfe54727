from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.errors import SiteAgentError
from site_agent.tasks.checkpoint import Checkpoint, CheckpointStore

ROWS = pa.table({"k": ["a", "b"], "n": [1, 2]})


def test_no_checkpoint_is_the_empty_one(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path).load() == (Checkpoint(), None)


def test_a_checkpoint_comes_back_whole(tmp_path: Path) -> None:
    checkpoint = Checkpoint(1, {"c1": 4, "c2": 0}, ("c1",), closed_us=50, watermark_us=55)
    CheckpointStore(tmp_path).save(checkpoint, ROWS)

    loaded, rows = CheckpointStore(tmp_path).load()

    assert loaded == checkpoint
    assert rows is not None
    assert rows.equals(ROWS)


def test_the_next_checkpoint_replaces_the_last(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(Checkpoint(1, {"c": 1}), ROWS)
    store.save(Checkpoint(2, {"c": 2}), None)

    assert store.load() == (Checkpoint(2, {"c": 2}), None)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.json"]


def test_a_state_file_without_its_checkpoint_does_not_count(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(Checkpoint(1, {"c": 1}), ROWS)
    (tmp_path / "state-2.arrow").write_bytes(b"half written")

    assert store.load()[0].number == 1


def test_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.json").write_bytes(b"{")

    with pytest.raises(SiteAgentError, match=r"checkpoint\.json"):
        CheckpointStore(tmp_path).load()


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    CheckpointStore(tmp_path).save(Checkpoint(1, {"c1": 4}), ROWS)

    for path in (tmp_path / "checkpoint.json", tmp_path / "state-1.arrow"):
        data = path.read_bytes()
        for at in range(len(data)):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :])
            # White space in the JSON text means nothing.
            if data[at : at + 1] != b" ":
                with pytest.raises(SiteAgentError, match="cannot be read"):
                    CheckpointStore(tmp_path).load()
        path.write_bytes(data)
