"""The audit log: one JSON line per call that reads or changes data, and per call that was refused."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from machine.private import opener
from master.access.caller import Call
from master.base.errors import AuditError
from master.base.logs import line

logger = logging.getLogger(__name__)

OK = "OK"
BYTES = 64 * 1024 * 1024
FILES = 10
FOLDED = ("UNAUTHENTICATED", "LIMIT_EXCEEDED")
"""Outcomes of which a flood of calls has many: equal ones are logged once a second, with their number."""

_FOLDING = timedelta(seconds=1)
_MOST_FOLDED = 1000


class Audit(Protocol):
    """Takes the records of the audit log."""

    def write(self, call: Call, outcome: str, now: datetime) -> None:
        """Record how a call ended: OK, or the code of its error."""
        ...

    def tick(self, now: datetime) -> None:
        """Write the records that were held back."""
        ...


class NoAudit:
    """Records nothing."""

    def write(self, call: Call, outcome: str, now: datetime) -> None:
        """See `Audit`."""

    def tick(self, now: datetime) -> None:
        """See `Audit`."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The path of the log, and when its files are rotated."""

    path: Path
    size_bytes: int = BYTES
    """A file of this size is renamed to `PATH.1`, that one to `PATH.2`, and so on."""
    files: int = FILES
    """The number of rotated files that are kept."""


@dataclass(slots=True)
class _Folded:
    """Equal refusals within a second."""

    call: Call
    outcome: str
    since: datetime
    count: int = 0
    """The number of refusals that were not written."""


class AuditLog:
    """Writes to a file of mode 0600. If that fails, the master logs the failure and answers calls nevertheless."""

    def __init__(self, options: AuditOptions) -> None:
        """Raises AuditError when the file cannot be written."""
        self._options = options
        self._folded: dict[tuple[str, str, str, str], _Folded] = {}
        self._failing = False
        try:
            options.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(options.path, "a", opener=opener):
                options.path.chmod(0o600)
        except OSError as error:
            raise AuditError(
                f"the audit log {options.path} cannot be written: {error.strerror}",
                hint="name another: --audit-log FILE",
            ) from error

    def write(self, call: Call, outcome: str, now: datetime) -> None:
        """See `Audit`."""
        if outcome not in FOLDED:
            self._append(record_of(call, outcome, now))
            return
        key = (call.principal.name, _host(call.peer), call.method, outcome)
        last = self._folded.get(key)
        if last is not None and now < last.since + _FOLDING:
            last.count += 1
            return
        if last is not None:
            self._tell(last, now)
        if len(self._folded) >= _MOST_FOLDED:
            self._tell_all(now)
        self._folded[key] = _Folded(call, outcome, now)
        self._append(record_of(call, outcome, now))

    def tick(self, now: datetime) -> None:
        """See `Audit`."""
        for key in [key for key, folded in self._folded.items() if now >= folded.since + _FOLDING]:
            self._tell(self._folded.pop(key), now)

    def _tell_all(self, now: datetime) -> None:
        for folded in self._folded.values():
            self._tell(folded, now)
        self._folded.clear()

    def _tell(self, folded: _Folded, now: datetime) -> None:
        if folded.count:
            self._append({**record_of(folded.call, folded.outcome, now), "repeated": folded.count})

    def _append(self, record: dict[str, object]) -> None:
        text = json.dumps(record, ensure_ascii=True) + "\n"
        try:
            self._rotate(len(text))
            with open(self._options.path, "a", opener=opener) as file:
                file.write(text)
            self._failing = False
        except OSError as error:
            if not self._failing:
                logger.error(line("audit log not written", file=self._options.path, reason=error.strerror))  # noqa: TRY400
            self._failing = True

    def _rotate(self, more_bytes: int) -> None:
        path = self._options.path
        if not path.exists() or path.stat().st_size + more_bytes <= self._options.size_bytes:
            return
        older = [path, *_numbered(path, self._options.files)]
        for source, target in reversed(list(pairwise(older))):
            if source.exists():
                source.replace(target)
        if len(older) == 1:
            os.truncate(path, 0)


def record_of(call: Call, outcome: str, now: datetime) -> dict[str, object]:
    """The line of a record. It has no token, no SQL and no message: these may contain what must not be in a log."""
    record: dict[str, object] = {
        "at": now.isoformat(timespec="milliseconds"),
        "principal": call.principal.name,
        "kind": call.principal.kind.value,
        "token": call.token,
        "peer": call.peer,
        "method": call.method,
        "relations": sorted(call.relations),
        "queries": sorted(call.queries),
        "outcome": outcome,
    }
    if call.statement_sha256:
        record["statement_sha256"] = call.statement_sha256
    return record


def _numbered(path: Path, files: int) -> Iterator[Path]:
    return (path.with_name(f"{path.name}.{number}") for number in range(1, files + 1))


def _host(peer: str) -> str:
    """The peer's address without its port, which differs for every connection."""
    return peer.rpartition(":")[0]
