from __future__ import annotations

import json
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.base.errors import SiteAgentError
from site_agent.tasks.checkpoint import Checkpoint, CheckpointStore, SavedState
from site_agent.tasks.progress import Totals
from tests.unit.site_agent.tasks.older_state import save_older

ROWS = pa.table({"k": ["a", "b"], "n": [1, 2]})
OTHERS = pa.table({"x": [0.5]})


def test_no_checkpoint_is_the_empty_one(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path).load_state() == SavedState()


def test_a_checkpoint_comes_back_whole(tmp_path: Path) -> None:
    checkpoint = Checkpoint(1, {"c1": 4, "c2": 0}, ("c1",), closed_us=50, watermark_us=55)
    CheckpointStore(tmp_path).save_state(checkpoint, {})

    assert CheckpointStore(tmp_path).load_state().checkpoint == checkpoint


def test_rows_that_an_older_agent_stored_come_back(tmp_path: Path) -> None:
    save_older(tmp_path, Checkpoint(1, {"c1": 4}), {"input": ROWS, "t1": OTHERS})

    saved = CheckpointStore(tmp_path).load_state()

    assert saved.checkpoint.cursors == {"c1": 4}
    assert saved.rows.keys() == {"input", "t1"}
    assert saved.rows["input"].equals(ROWS)
    assert saved.rows["t1"].equals(OTHERS)


def test_the_next_checkpoint_replaces_the_last(tmp_path: Path) -> None:
    save_older(tmp_path, Checkpoint(1, {"c": 1}), {"input": ROWS, "t1": OTHERS})
    CheckpointStore(tmp_path).save_state(Checkpoint(2, {"c": 2}), {})

    assert CheckpointStore(tmp_path).load_state() == SavedState(Checkpoint(2, {"c": 2}))
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.json"]


def test_a_state_file_without_its_checkpoint_does_not_count(tmp_path: Path) -> None:
    CheckpointStore(tmp_path).save_state(Checkpoint(1, {"c": 1}), {})
    (tmp_path / "run-2-input-0.rows").write_bytes(b"half written")

    assert CheckpointStore(tmp_path).load_state().checkpoint.number == 1


def test_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.json").write_bytes(b"{")

    with pytest.raises(SiteAgentError, match=r"checkpoint\.json"):
        CheckpointStore(tmp_path).load_state()


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    save_older(tmp_path, Checkpoint(1, {"c1": 4}), {"input": ROWS, "t1": OTHERS})

    for path in (tmp_path / "checkpoint.json", tmp_path / "state-1-t1.arrow"):
        data = path.read_bytes()
        for at in range(len(data)):
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :])
            # White space in the JSON text means nothing.
            if data[at : at + 1] != b" ":
                with pytest.raises(SiteAgentError, match="cannot be read"):
                    CheckpointStore(tmp_path).load_state()
        path.write_bytes(data)


def test_a_checkpoint_of_a_merge_with_one_view_can_still_be_read(tmp_path: Path) -> None:
    """As it was written before merges had views."""
    content = {
        **{"number": 3, "cursors": {"c": 7}, "ended": [], "closed_us": 5, "watermark_us": 6},
        **{"totals": Totals().to_json(), "state": "state-3.arrow"},
    }
    with pa.ipc.new_file(str(tmp_path / "state-3.arrow"), ROWS.schema) as writer:
        writer.write_table(ROWS)
    content["state_crc32"] = zlib.crc32((tmp_path / "state-3.arrow").read_bytes())
    sealed = {**content, "crc32": zlib.crc32(json.dumps(content, sort_keys=True).encode())}
    (tmp_path / "checkpoint.json").write_text(json.dumps(sealed))
    saved = CheckpointStore(tmp_path).load_state()

    assert (saved.checkpoint.number, saved.checkpoint.cursors) == (3, {"c": 7})
    assert saved.rows["input"].equals(ROWS)
    CheckpointStore(tmp_path).save_state(Checkpoint(4), {})
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.json"]
