"""A merge's progress on disk: how far each channel is read, and the rows of the windows that were open then.

Two files in the task's directory: `state-<n>.arrow` first, then `checkpoint.json`, whose rename makes both count.
Channels are acknowledged only up to a checkpoint, so everything after it can be read again.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from site_agent.durable import write_atomically
from site_agent.errors import SiteAgentError
from site_agent.tasks.progress import Totals


@dataclass(frozen=True, slots=True)
class Checkpoint:
    number: int = 0
    cursors: Mapping[str, int] = field(default_factory=dict)
    """Next epoch to read, by channel."""
    ended: tuple[str, ...] = ()
    """Channels that ended for good and are read to their end; they may be gone by now."""
    closed_us: int | None = None
    """Windows up to here are not in the state."""
    watermark_us: int | None = None
    totals: Totals = field(default_factory=Totals)


class CheckpointStore:
    """Checkpoints of one task in its own directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def load(self) -> tuple[Checkpoint, pa.Table | None]:
        """The last checkpoint and its rows; the empty one when there is none.

        Raises:
            SiteAgentError: a file is damaged.
        """
        path = self._directory / "checkpoint.json"
        if not path.exists():
            return Checkpoint(), None
        try:
            value = _unsealed(json.loads(path.read_bytes()))
            checkpoint = Checkpoint(
                value["number"],
                value["cursors"],
                tuple(value["ended"]),
                value["closed_us"],
                value["watermark_us"],
                Totals.from_json(value["totals"]),
            )
            return checkpoint, self._load_state(value["state"], value["state_crc32"])
        except (ValueError, KeyError, TypeError, AttributeError, OSError, pa.ArrowInvalid) as error:
            raise SiteAgentError(f"the checkpoint {path} cannot be read: {error}") from error

    def save(self, checkpoint: Checkpoint, rows: pa.Table | None) -> None:
        state = f"state-{checkpoint.number}.arrow" if rows is not None and rows.num_rows else ""
        state_crc32 = self._save_state(state, rows) if state else 0
        content = {
            "number": checkpoint.number,
            "cursors": dict(checkpoint.cursors),
            "ended": list(checkpoint.ended),
            "closed_us": checkpoint.closed_us,
            "watermark_us": checkpoint.watermark_us,
            "totals": checkpoint.totals.to_json(),
            "state": state,
            "state_crc32": state_crc32,
        }
        write_atomically(self._directory / "checkpoint.json", json.dumps(_sealed(content)).encode())
        self._remove_states_but(state)

    def _load_state(self, name: str, crc32: int) -> pa.Table | None:
        if not name:
            return None
        data = (self._directory / name).read_bytes()
        if zlib.crc32(data) != crc32:
            raise ValueError(f"{name} does not match its checksum")
        return pa.ipc.open_file(pa.py_buffer(data)).read_all()

    def _save_state(self, name: str, rows: pa.Table) -> int:
        """Returns its CRC-32."""
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema, options=options) as writer:
            writer.write_table(rows)
        data = sink.getvalue()
        with (self._directory / name).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return zlib.crc32(data)

    def _remove_states_but(self, name: str) -> None:
        for path in self._directory.glob("state-*.arrow"):
            if path.name != name:
                path.unlink()


def _sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """With a checksum: a changed digit of a cursor is still JSON, and would lose rows."""
    return {**content, "crc32": _crc32(content)}


def _unsealed(value: dict[str, Any]) -> dict[str, Any]:
    """Raises KeyError or ValueError when it is not what `_sealed` made."""
    crc32 = value.pop("crc32")
    if _crc32(value) != crc32:
        raise ValueError("it does not match its checksum")
    return value


def _crc32(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
