"""Checkpoints as versions before runs wrote them: all rows each time."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pyarrow as pa

from site_agent.tasks.checkpoint import Checkpoint, sealed
from site_agent.tasks.views import Rows


def save_older(directory: Path, checkpoint: Checkpoint, rows: Rows) -> None:
    """Make this the last checkpoint, with rows by view."""
    directory.mkdir(exist_ok=True)
    states = {}
    for view, table in rows.items():
        path = directory / f"state-{checkpoint.number}-{view}.arrow"
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
        states[view] = {"file": path.name, "crc32": zlib.crc32(path.read_bytes())}
    content = {
        **{"number": checkpoint.number, "cursors": dict(checkpoint.cursors), "ended": list(checkpoint.ended)},
        **{"closed_us": checkpoint.closed_us, "watermark_us": checkpoint.watermark_us},
        **{"totals": checkpoint.totals.to_json(), "states": states},
    }
    (directory / "checkpoint.json").write_text(json.dumps(sealed(content)))
