"""Decisions are kept: what repeats counts, actions stand alone, the newest stay."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from master.adaptation.journal import FILE, Journal
from planner.adapt.diagnose import Cause, Finding
from planner.adapt.options import Action, Change, Option
from planner.adapt.situation import Considered, Decision, Verdict
from planner.graph.ids import TaskId
from planner.values.adapting import Adapting

START = datetime(2026, 11, 1, tzinfo=UTC)
FINDING = Finding(Cause.LINK, TaskId("q", "m1"), "us", "eu", 1000.0, 500.0, 9000.0, "9000 rows wait")
OPTION = Option(Action.REASSIGN, (Change(("q", "m1"), {"eu": 1}, {"us": 1}),), 4.0, float("inf"))


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def healthy(query: str = "q") -> Decision:
    return Decision(query, START, Verdict.HEALTHY, "it keeps up")


def act() -> Decision:
    considered = (Considered(OPTION), Considered(OPTION, "the one before it is enough"))
    return Decision("q", START, Verdict.ACT, "the link is relieved", FINDING, considered, "1000 rows/s pass")


def note(journal: Journal, second: int, *decisions: Decision) -> None:
    journal.note([(one, Adapting.ADVISE) for one in decisions], at(second))


def test_what_repeats_counts_and_actions_stand_alone() -> None:
    journal = Journal.in_memory()
    for second in (0, 20, 40):
        note(journal, second, healthy(), healthy("other"))
    note(journal, 60, act())
    note(journal, 80, act())
    note(journal, 100, healthy())
    found = journal.newest("q", 10)
    assert [(e.verdict, e.count) for e in found] == [
        (Verdict.HEALTHY, 3), (Verdict.ACT, 1), (Verdict.ACT, 1), (Verdict.HEALTHY, 1),
    ]  # fmt: skip
    assert (found[0].first_at, found[0].at) == (at(0), at(40))
    assert [e.query for e in journal.newest("", 2)] == ["q", "q"]
    assert journal.told("other").startswith("00:00:40 healthy")


def test_an_action_has_an_outcome_and_comes_back_whole(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    note(journal, 0, act())
    journal.conclude("q", "other", "not this one")
    journal.conclude("q", "m1", "the cause is gone")
    (entry,) = journal.newest("q", 1)
    assert entry.outcome == "the cause is gone"
    assert [(o.change, o.link_use, o.against) for o in entry.considered] == [
        ("m1 eu -> us", None, ""), ("m1 eu -> us", None, "the one before it is enough"),
    ]  # fmt: skip
    assert "re-assign, m1 eu -> us" in entry.line
    journal.close()
    again = Journal.open(tmp_path)
    assert list(again.newest("", 10)) == [entry]
    note(again, 20, healthy())
    assert [e.number for e in again.newest("", 10)] == [1, 2]
    again.forget(frozenset())
    assert not again.newest("", 10)
    again.close()


def test_the_oldest_go() -> None:
    journal = Journal(sqlite3.connect(":memory:", isolation_level=None), kept=3)
    for second in range(5):
        note(journal, second, act())
    assert [e.number for e in journal.newest("", 10)] == [3, 4, 5]


def test_an_unusable_file_begins_anew(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is no database, and longer than its first page would be" * 100)
    journal = Journal.open(tmp_path)
    assert not journal.newest("", 10)
    note(journal, 0, healthy())
    journal.close()
    assert (tmp_path / FILE).with_suffix(".damaged").exists()
