"""JSON files that are replaced atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from machine.private import opener


def write_json(path: Path, content: object) -> None:
    """Replace a file atomically."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}")
    with open(scratch, "w", opener=opener) as file:
        file.write(json.dumps(content, indent=2) + "\n")
    scratch.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None: there is no file, or it holds no object."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
