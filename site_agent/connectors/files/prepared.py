"""A site's cache of files sorted by event time: prepared once for all tasks that replay the same files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Protocol

from planner.relations.connectors.files import FORMAT, PATH, PATTERN
from site_agent.base.durable import write_atomically
from site_agent.base.errors import ConnectorError
from site_agent.base.posix import sync_directory
from site_agent.connectors.files.listing import FoundFile, complete_files
from site_agent.connectors.files.options import reader_options
from site_agent.connectors.files.timeline import INDEX_NAME, Timeline, write_index
from site_agent.connectors.paths import ANYWHERE, AllowedPaths
from site_agent.connectors.sources import SourceContext
from site_agent.engine import FilesScan

SHARED_NAME = "prepared"
"""Directory beside the sources' own ones."""
PIN_NAME = "replay.json"
"""File in a source's directory that names what it replays."""

_LAYOUT = 2


class Preparer(Protocol):
    """What sorts files; the engine does."""

    def prepare(self, scan: FilesScan, event_time: str, directory: Path) -> None:
        """Write all columns as Parquet parts of `directory`: by event time (NULL first), then by all other columns.

        Malformed rows that the scan sets aside go to its file MALFORMED_NAME, when there are any.
        """
        ...


class PreparedFiles:
    """The prepared directories of one site."""

    def __init__(self, preparer: Preparer, allowed: AllowedPaths = ANYWHERE) -> None:
        self._preparer = preparer
        self._allowed = allowed
        self._lock = Lock()

    def open(self, context: SourceContext) -> Timeline:
        """What the source replays: the files of the first time it was opened, also when there are others by now.

        Raises:
            ConnectorError: files cannot be read, or are not the ones that the replay began with.
        """
        shared = context.directory.parent / SHARED_NAME
        with self._lock:
            pinned = _pinned(context.directory)
            if pinned is None or not (shared / pinned / INDEX_NAME).exists():
                files = complete_files(Path(PATH.of(context.options)), PATTERN.of(context.options), self._allowed)
                name = _fingerprint(context, files)
                if pinned is not None and name != pinned:
                    raise ConnectorError(
                        f"files of {context.relation} changed while they are replayed, and their prepared copy is gone",
                        hint="start the query anew",
                    )
                self._ensure(shared, name, context, files)
                write_atomically(context.directory / PIN_NAME, json.dumps({"prepared": name}).encode())
                pinned = name
            return Timeline(shared / pinned)

    def _ensure(self, shared: Path, name: str, context: SourceContext, files: Sequence[FoundFile]) -> None:
        if (shared / name / INDEX_NAME).exists():
            return
        shared.mkdir(parents=True, exist_ok=True)
        _remove_unpinned(shared, keep=name)
        beside = shared / f".{name}.tmp"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        if files:
            self._preparer.prepare(_whole(context, files), context.event_time, beside)
        write_index(beside, context.event_time)
        _sync_tree(beside)
        beside.rename(shared / name)
        sync_directory(shared)


def _whole(context: SourceContext, files: Sequence[FoundFile]) -> FilesScan:
    return FilesScan(
        format=FORMAT.of(context.options),
        paths=tuple(sorted(f.path for f in files)),
        columns=context.columns,
        read_columns=tuple(c.name for c in context.columns),
        options=reader_options(context.options),
    )


def _fingerprint(context: SourceContext, files: Sequence[FoundFile]) -> str:
    """The same for the same files, read the same way."""
    parts = [
        _LAYOUT,
        sorted([f.path, f.size_bytes, f.modified_ns] for f in files),
        [[c.name, c.type] for c in context.columns],
        context.event_time,
        FORMAT.of(context.options),
        sorted(reader_options(context.options).items()),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _pinned(directory: Path) -> str | None:
    try:
        return str(json.loads((directory / PIN_NAME).read_bytes())["prepared"])
    except FileNotFoundError:
        return None


def _remove_unpinned(shared: Path, keep: str) -> None:
    pins = {_pinned(directory) for directory in shared.parent.iterdir() if directory.is_dir()}
    for directory in shared.iterdir():
        if directory.name not in pins and directory.name != keep:
            shutil.rmtree(directory, ignore_errors=True)


def _sync_tree(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_directory(directory)
