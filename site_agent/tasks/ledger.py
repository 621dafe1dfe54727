"""The commits of one sink task: which are done, and which is under way. One small file, replaced at once.

    idle --prepare: intent durable--> pending --perform: written, then recorded--> idle

Crash before `prepare` returns: nothing was written; the rows are read again, perhaps cut into commits differently.
Crash after it: the pending commit's epochs are known, none of them is acknowledged, and `perform` writes exactly them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from site_agent.base.errors import SiteAgentError
from site_agent.base.files import Files, write_json
from site_agent.connectors.sinks import EncodedFile, EpochRange, SinkCommit, SinkWriter
from site_agent.tasks.checkpoint import sealed, unsealed
from site_agent.tasks.progress import Totals

LEDGER_FILE = "sink.json"


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a task has come."""

    cursors: Mapping[str, int] = field(default_factory=dict)
    """Next epoch to read, by channel."""
    ended: tuple[str, ...] = ()
    """Channels that ended for good and are read to their end."""
    watermark_us: int | None = None
    totals: Totals = field(default_factory=Totals)


@dataclass(frozen=True, slots=True)
class Pending:
    """A commit whose files may be there already, or in part."""

    commit: SinkCommit
    sites: Mapping[str, str]
    """Where its channels come from."""
    after: Reached
    """Where the task stands once it is done, but for the bytes written."""


class Ledger:
    """Blocking; used from one thread at a time."""

    def __init__(self, directory: Path, files: Files | None = None) -> None:
        self._path = directory / LEDGER_FILE
        self._files = files or Files()
        self.number = 0
        """Of the last commit done."""
        self.reached = Reached()
        self.pending: Pending | None = None
        self.options: Mapping[str, str] = {}
        """Options that the query keeps."""

    def load(self) -> None:
        """Take up what is on disk, if anything is.

        Raises:
            SiteAgentError: the file is damaged.
        """
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return
        try:
            value = unsealed(json.loads(text))
            self.number, self.options = value["number"], value["options"]
            self.reached = _reached(value["reached"])
            self.pending = _pending(value["pending"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SiteAgentError(f"the record of commits {self._path} cannot be read: {error}") from error

    def keep_options(self, options: Mapping[str, str]) -> None:
        """Store what the query keeps; the first call of its life counts. Raises OSError."""
        if not self.options:
            self._store(self.number, self.reached, None, options=options)

    def prepare(self, pending: Pending) -> None:
        """Say what is about to be written. Raises OSError; then nothing has changed."""
        if self.pending is not None or pending.commit.number != self.number + 1:
            raise SiteAgentError(f"commit {pending.commit.number} cannot follow commit {self.number}")
        self._store(self.number, self.reached, pending)

    def perform(self, writer: SinkWriter, files: Sequence[EncodedFile]) -> int:
        """Write the pending commit and record it. After an error it may be called again with the same files.

        Returns:
            Bytes written.

        Raises:
            OSError, SinkError: as `SinkWriter.write`.
        """
        if self.pending is None:
            raise SiteAgentError("no commit is pending")
        size_bytes = writer.write(self.pending.commit, files)
        after = self.pending.after
        after = replace(after, totals=after.totals.plus(bytes_out=size_bytes))
        self._store(self.pending.commit.number, after, None)
        return size_bytes

    def advance(self, reached: Reached) -> None:
        """Record progress that has no rows to write. Raises OSError."""
        self._store(self.number, reached, None)

    def _store(
        self,
        number: int,
        reached: Reached,
        pending: Pending | None,
        *,
        options: Mapping[str, str] | None = None,
    ) -> None:
        options = self.options if options is None else options
        content = {
            "number": number,
            "options": dict(options),
            "reached": _reached_json(reached),
            "pending": _pending_json(pending) if pending is not None else None,
        }
        write_json(self._files, self._path, sealed(content), durable=True)
        self.number, self.reached, self.pending, self.options = number, reached, pending, options


def _reached_json(reached: Reached) -> dict[str, Any]:
    return {
        "cursors": dict(reached.cursors),
        "ended": list(reached.ended),
        "watermark_us": reached.watermark_us,
        "totals": reached.totals.to_json(),
    }


def _reached(value: dict[str, Any]) -> Reached:
    totals = Totals.from_json(value["totals"])
    return Reached(value["cursors"], tuple(value["ended"]), value["watermark_us"], totals)


def _pending_json(pending: Pending) -> dict[str, Any]:
    return {"commit": pending.commit.to_json(), "sites": dict(pending.sites), "after": _reached_json(pending.after)}


def _pending(value: dict[str, Any] | None) -> Pending | None:
    if value is None:
        return None
    commit = value["commit"]
    epochs = {channel: EpochRange(*bounds) for channel, bounds in commit["epochs"].items()}
    return Pending(SinkCommit(commit["query"], commit["number"], epochs), value["sites"], _reached(value["after"]))
