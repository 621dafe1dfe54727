"""The order in which a followed directory's files were discovered, kept on disk: offsets are positions in it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from site_agent.base.errors import ConnectorError
from site_agent.base.posix import sync_directory
from site_agent.connectors.files.listing import FoundFile

_END = {"end": True}


class DiscoveryLog:
    """A JSON line for each file, a last one when no more are to come. A line counts once it is whole and on disk."""

    def __init__(self, path: Path) -> None:
        """Read what is there; a line that a crash cut short is removed.

        Raises:
            ConnectorError: the log is damaged.
        """
        self._path = path
        self._files: list[FoundFile] = []
        self._times_us: list[int] = []
        self._known: set[str] = set()
        self.ended = False
        """True: no file is added any more."""
        self._load()

    @property
    def files(self) -> Sequence[FoundFile]:
        return self._files

    @property
    def times_us(self) -> Sequence[int]:
        """The instant at which each file was discovered; it never goes back."""
        return self._times_us

    def add(self, found: Sequence[FoundFile], *, at_us: int, last: bool = False) -> None:
        """Append the files that are new, as discovered at that time; `last` ends the log. Durable when it returns."""
        fresh = [] if self.ended else [f for f in found if f.path not in self._known]
        lines = [_line(f, at_us) for f in fresh] + ([json.dumps(_END)] if last and not self.ended else [])
        if not lines:
            return
        created = not self._path.exists()
        with self._path.open("ab") as log:
            log.write("".join(line + "\n" for line in lines).encode())
            log.flush()
            os.fsync(log.fileno())
        if created:
            sync_directory(self._path.parent)
        self._remember(fresh, at_us)
        self.ended = self.ended or last

    def _remember(self, files: Sequence[FoundFile], at_us: int) -> None:
        self._files.extend(files)
        self._times_us.extend([at_us] * len(files))
        self._known.update(f.path for f in files)

    def _load(self) -> None:
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(self._path, len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                entry = json.loads(line)
                if entry == _END:
                    self.ended = True
                else:
                    file = FoundFile(entry["path"], entry["size"], entry["modified_ns"])
                    # Logs of earlier versions have no times; streams by arrival came with them.
                    self._remember([file], entry.get("at_us", 0))
            except (ValueError, KeyError, TypeError) as error:
                raise ConnectorError(f"the discovery log {self._path} is damaged in line {number}") from error


def _line(found: FoundFile, at_us: int) -> str:
    return json.dumps({"path": found.path, "size": found.size_bytes, "modified_ns": found.modified_ns, "at_us": at_us})
