"""Decisions about queries, in a SQLite file of their own: no commit waits for it, and a full disk stops nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from master.base.beside import Writing, in_memory, open_beside
from master.store import codec
from planner.adapt.situation import Decision, Verdict
from planner.values.adapting import Adapting

FILE = "adaptation.sqlite"
KEPT = 5_000
"""So many of the newest."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS decisions (
    number INTEGER PRIMARY KEY,
    query TEXT NOT NULL,
    body TEXT NOT NULL
);
"""


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """Something that could have been done; times and shares as they were expected."""

    action: str
    change: str
    adapt_s: float
    link_use: float | None
    """None: a link is missing."""
    note: str
    against: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A decision as it is kept."""

    number: int
    query: str
    mode: Adapting
    verdict: Verdict
    reason: str
    at: datetime
    first_at: datetime
    count: int = 1
    cause: str = ""
    task: str = ""
    site: str = ""
    to_site: str = ""
    seen: str = ""
    expected_per_s: float = 0.0
    passed_per_s: float = 0.0
    queued_rows: float = 0.0
    considered: tuple[OptionEntry, ...] = ()
    expected: str = ""
    outcome: str = ""
    cost: str = ""
    """It is the cost of the action, with its parts."""

    @property
    def line(self) -> str:
        """For people."""
        cause = f" ({self.cause} at {self.site}{f'->{self.to_site}' if self.to_site else ''})" if self.cause else ""
        chosen = next((f": {o.action}, {o.change}" for o in self.considered if not o.against), "")
        return f"{self.verdict.value}{cause}{chosen}: {self.reason}"

    def repeats(self, before: Entry) -> bool:
        """Return True when it says the same again. Actions are told one by one."""
        if Verdict.ACT in (self.verdict, before.verdict):
            return False
        return self._gist == before._gist

    @property
    def _gist(self) -> tuple[object, ...]:
        return self.mode, self.verdict, self.cause, self.task, self.site, self.to_site


def entry_of(decision: Decision, mode: Adapting, number: int, at: datetime) -> Entry:
    """A decision, as it is kept from now on."""
    finding = decision.finding
    entry = Entry(number, decision.query, mode, decision.verdict, decision.reason, at, at, expected=decision.expected)
    entry = replace(entry, cost=decision.cost.text if decision.cost is not None else "")
    options = tuple(
        OptionEntry(
            one.option.action.value,
            one.option.text,
            one.option.adapt_s,
            one.option.link_use if one.option.link_use != float("inf") else None,
            one.option.note,
            one.against,
        )
        for one in decision.considered
    )
    if finding is None:
        return replace(entry, considered=options)
    return replace(
        entry,
        cause=finding.cause.value,
        task=str(finding.task),
        site=finding.site,
        to_site=finding.to_site,
        seen=finding.seen,
        expected_per_s=finding.expected_per_s,
        passed_per_s=finding.passed_per_s,
        queued_rows=finding.queued_rows,
        considered=options,
    )


class Journal:
    """The newest decisions, by number; on one event loop."""

    def __init__(self, connection: sqlite3.Connection, *, kept: int = KEPT) -> None:
        self._connection = connection
        self._kept = kept
        self._writing = Writing(connection, "decisions not stored")
        connection.executescript(_SCHEMA)
        rows = connection.execute("SELECT body FROM decisions ORDER BY number")
        self._entries: dict[int, Entry] = {}
        for (body,) in rows:
            entry = codec.loads(Entry, body)
            self._entries[entry.number] = entry
        self._last = max(self._entries, default=0)

    @classmethod
    def in_memory(cls) -> Journal:
        return cls(in_memory())

    @classmethod
    def open(cls, directory: Path) -> Journal:
        """The journal in that directory, created if missing; an unusable file is replaced by an empty one."""
        return open_beside(directory / FILE, cls)

    def note(self, decisions: Iterable[tuple[Decision, Adapting]], at: datetime) -> None:
        """Keep what a round decided; what repeats counts again."""
        news, gone = [], []
        for decision, mode in decisions:
            self._last += 1
            entry = entry_of(decision, mode, self._last, at)
            before = next((e for e in self._of(decision.query) if entry.repeats(e)), None)
            if before is not None:
                entry = replace(entry, first_at=before.first_at, count=before.count + 1)
                gone.append(before.number)
                del self._entries[before.number]
            self._entries[entry.number] = entry
            news.append(entry)
        gone += islice(self._entries, max(0, len(self._entries) - self._kept))
        for number in gone:
            self._entries.pop(number, None)
        self._put(news, gone)

    def conclude(self, query: str, stage: str, outcome: str) -> None:
        """Note what came of the last action about a stage of a query."""
        for entry in reversed(self._entries.values()):
            if entry.query != query or entry.verdict is not Verdict.ACT or entry.outcome:
                continue
            if any(option.change.startswith(f"{stage} ") for option in entry.considered if not option.against):
                self._entries[entry.number] = concluded = replace(entry, outcome=outcome)
                self._put([concluded], [])
                return

    def newest(self, query: str, limit: int) -> Sequence[Entry]:
        """At most this many of the newest, oldest first; `query`: only about this one; empty: about all."""
        found = (entry for entry in reversed(self._entries.values()) if query in ("", entry.query))
        return list(islice(found, limit))[::-1]

    def told(self, query: str) -> str:
        """The newest decision about a query, in one line; empty: there is none."""
        return next((f"{e.at:%H:%M:%S} {e.line}" for e in reversed(self._entries.values()) if e.query == query), "")

    def forget(self, known: frozenset[str]) -> None:
        """Forget what was decided about queries that nobody knows any more."""
        gone = [number for number, entry in self._entries.items() if entry.query not in known]
        for number in gone:
            del self._entries[number]
        if gone:
            self._put([], gone)

    def _of(self, query: str) -> Iterable[Entry]:
        """The decisions of the last round about a query: those before a newer action do not count on."""
        for entry in reversed(self._entries.values()):
            if entry.query == query:
                if entry.verdict is Verdict.ACT:
                    return
                yield entry

    def _put(self, entries: Iterable[Entry], gone: Iterable[int]) -> None:
        rows = [(entry.number, entry.query, codec.dumps(entry)) for entry in entries]
        with self._writing.transaction() as connection:
            connection.executemany("DELETE FROM decisions WHERE number = ?", [(number,) for number in gone])
            connection.executemany("INSERT OR REPLACE INTO decisions VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        self._connection.close()
