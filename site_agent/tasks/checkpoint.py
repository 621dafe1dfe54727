"""A merge's progress on disk: how far each channel is read, and the rows of the windows that were open then.

In the task's directory: for each view that has rows `state-<n>-<view>.arrow` first, then `checkpoint.json`, whose
rename makes all of them count. Channels are acknowledged only up to a checkpoint, so everything after it can be read
again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from machine.faults import reached
from planner.values.names import INPUT_VIEW
from site_agent.base import posix
from site_agent.base.disk import disk_error
from site_agent.base.durable import write_atomically
from site_agent.base.errors import SiteAgentError
from site_agent.base.faults import FaultPoint
from site_agent.tasks.progress import Totals
from site_agent.tasks.views import Rows


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
    out: int | None = None
    """Of a task that reads its own channel after a crash: the first epoch that is not in the state."""


class CheckpointStore:
    """Checkpoints of one task in its own directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def load(self) -> tuple[Checkpoint, Rows]:
        """The last checkpoint and its rows by view; the empty one when there is none.

        Raises:
            SiteAgentError: a file is damaged.
        """
        path = self._directory / "checkpoint.json"
        if not path.exists():
            return Checkpoint(), {}
        try:
            value = unsealed(json.loads(path.read_bytes()))
            checkpoint = Checkpoint(
                value["number"],
                value["cursors"],
                tuple(value["ended"]),
                value["closed_us"],
                value["watermark_us"],
                Totals.from_json(value["totals"]),
                value.get("out"),
            )
            states = value["states"] if "states" in value else _only_state(value)
            return checkpoint, {view: self._load_state(state["file"], state["crc32"]) for view, state in states.items()}
        except (ValueError, KeyError, TypeError, AttributeError, OSError, pa.ArrowInvalid) as error:
            raise SiteAgentError(f"the checkpoint {path} cannot be read: {error}") from error

    def save(self, checkpoint: Checkpoint, rows: Rows) -> None:
        """Make this the last checkpoint; views without rows need not be named.

        Raises:
            ChannelError: the disk refuses; the checkpoint before it counts.
        """
        try:
            self._save(checkpoint, rows)
        except OSError as error:
            task = self._directory.name
            raise disk_error(f"the checkpoint of {task}", error, ids={"task": task}) from error

    def _save(self, checkpoint: Checkpoint, rows: Rows) -> None:
        states = {
            view: self._save_state(f"state-{checkpoint.number}-{view}.arrow", table)
            for view, table in sorted(rows.items())
            if table.num_rows
        }
        reached(FaultPoint.STATE_WRITTEN)
        content = {
            "number": checkpoint.number,
            "cursors": dict(checkpoint.cursors),
            "ended": list(checkpoint.ended),
            "closed_us": checkpoint.closed_us,
            "watermark_us": checkpoint.watermark_us,
            "totals": checkpoint.totals.to_json(),
            "out": checkpoint.out,
            "states": states,
        }
        write_atomically(self._directory / "checkpoint.json", json.dumps(sealed(content)).encode())
        reached(FaultPoint.CHECKPOINT_SAVED)
        self._remove_states_but({state["file"] for state in states.values()})

    def _load_state(self, name: str, crc32: int) -> pa.Table:
        data = (self._directory / name).read_bytes()
        if zlib.crc32(data) != crc32:
            raise ValueError(f"{name} does not match its checksum")
        return pa.ipc.open_file(pa.py_buffer(data)).read_all()

    def _save_state(self, name: str, rows: pa.Table) -> dict[str, Any]:
        """Returns what the checkpoint says of the file."""
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema, options=options) as writer:
            writer.write_table(rows)
        data = sink.getvalue()
        path = self._directory / name
        try:
            with path.open("wb") as file:
                file.write(data)
                file.flush()
                posix.sync(file)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return {"file": name, "crc32": zlib.crc32(data)}

    def _remove_states_but(self, names: Collection[str]) -> None:
        for path in self._directory.glob("state-*.arrow"):
            if path.name not in names:
                path.unlink()


def _only_state(value: Mapping[str, Any]) -> dict[str, Any]:
    """As merges wrote it that had one view."""
    return {INPUT_VIEW: {"file": value["state"], "crc32": value["state_crc32"]}} if value["state"] else {}


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """With a checksum: a changed digit of a cursor is still JSON, and would lose rows."""
    return {**content, "crc32": _crc32(content)}


def unsealed(value: dict[str, Any]) -> dict[str, Any]:
    """Raises KeyError or ValueError when it is not what `sealed` made."""
    crc32 = value.pop("crc32")
    if _crc32(value) != crc32:
        raise ValueError("it does not match its checksum")
    return value


def _crc32(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
