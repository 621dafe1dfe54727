"""Ledger and Parquet writer against a model, with crashes between any two operations on the disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from site_agent.base.errors import SiteAgentError
from site_agent.connectors.parquet.sink import ParquetSink
from site_agent.tasks.ledger import LEDGER_FILE, Ledger, Pending, Reached
from site_agent.tasks.progress import Totals
from tests.unit.site_agent.channels.crash import Crash, CrashingFiles
from tests.unit.site_agent.connectors.parquet.rows import Epoch, commit_of, rows_of, seen

pytestmark = pytest.mark.timeout(120)

CHANNELS = ("q.s1.eu", "q.s1.us")
LAST_OPERATION = 16
"""A commit into two partitions that are new takes so many."""


class SinkMachine(RuleBasedStateMachine):
    """A sink task as far as the disk can tell it from the real one; `taken` dies with the process, as its memory."""

    partition_by = ""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.files = CrashingFiles()
        self.done: set[Epoch] = set()
        """What is acknowledged, and so will never come again."""
        self.start()

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def start(self) -> None:
        """A process begins: it finishes what was under way, from channels that still have it."""
        self.files.arm(None)
        self.ledger = Ledger(self.root, self.files)
        self.ledger.load()
        options = {"path": str(self.root / "out")} | ({"partition_by": self.partition_by} if self.partition_by else {})
        self.writer = ParquetSink(self.files).open(options, "q-1")
        self.writer.prepare()
        self.redo()
        self.done = self.before(self.ledger.reached)
        self.taken: list[Epoch] = []

    def redo(self) -> None:
        if self.ledger.pending is not None:
            epochs = self.ledger.pending.commit.epochs
            assert not self.done & {(c, e) for c, r in epochs.items() for e in range(r.first, r.next)}
            again = [(c, e) for c, r in epochs.items() for e in range(r.first, r.next)]
            self.perform(again)

    def perform(self, epochs: Iterable[Epoch]) -> None:
        assert self.ledger.pending is not None
        self.ledger.perform(self.writer, self.writer.encode(self.ledger.pending.commit, rows_of(epochs)))

    @staticmethod
    def before(reached: Reached) -> set[Epoch]:
        return {(channel, epoch) for channel, cursor in reached.cursors.items() for epoch in range(cursor)}

    @rule(channel=st.sampled_from(CHANNELS))
    def take(self, channel: str) -> None:
        cursor = self.ledger.reached.cursors.get(channel, 0) + sum(c == channel for c, _ in self.taken)
        self.taken.append((channel, cursor))

    @rule()
    def commit(self) -> None:
        if self.taken:
            pending = self.pending()
            self.ledger.prepare(pending)
            self.perform(self.taken)
            self.done, self.taken = self.before(self.ledger.reached), []

    @rule(operation=st.integers(0, LAST_OPERATION), power=st.booleans(), again=st.integers(0, LAST_OPERATION))
    def crash(self, operation: int, power: bool, again: int) -> None:
        """While it commits, and perhaps a second time while it makes that good."""
        self.take(CHANNELS[operation % 2])
        self.files.arm(operation)
        try:
            self.commit()
        except Crash:
            self.die(power=power)
            self.files.arm(again)
            try:
                self.restart_armed()
            except Crash:
                self.die(power=power)
        self.start()

    def restart_armed(self) -> None:
        self.ledger = Ledger(self.root, self.files)
        self.ledger.load()
        self.writer.prepare()
        self.redo()

    def die(self, *, power: bool) -> None:
        self.files.arm(None)
        if power:
            self.files.lose_power()
        found = seen(self.root / "out")
        assert len(found) == len(set(found)), "a reader meets no row twice, whenever it comes"
        assert set(found) >= self.done

    def pending(self) -> Pending:
        reached = self.ledger.reached
        cursors = dict(reached.cursors)
        for channel, epoch in self.taken:
            cursors[channel] = epoch + 1
        totals = reached.totals.plus(rows_in=len(self.taken), rows_out=len(self.taken))
        commit = commit_of(self.ledger.number + 1, self.taken)
        return Pending(commit, dict.fromkeys(commit.epochs, "us"), replace(reached, cursors=cursors, totals=totals))

    @invariant()
    def every_epoch_is_there_once(self) -> None:
        assert seen(self.root / "out") == sorted(self.done)
        assert self.ledger.reached.totals.rows_out == len(self.done)
        assert not list((self.root / "out" / "_selat").rglob("*.tmp"))


class PartitionedSinkMachine(SinkMachine):
    partition_by = "channel"


TestSink = SinkMachine.TestCase
TestSink.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
TestPartitionedSink = PartitionedSinkMachine.TestCase
TestPartitionedSink.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)


def test_it_is_taken_up_as_it_was_left(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.keep_options({"path": "/a"})
    ledger.keep_options({"path": "/b"})
    ledger.advance(Reached({"q.s1.us": 4}, ("q.s1.us",), 17, Totals(rows_in=5)))
    pending = Pending(commit_of(1, [("q.s1.eu", 2)]), {"q.s1.eu": "eu"}, Reached({"q.s1.eu": 3}))
    ledger.prepare(pending)

    again = Ledger(tmp_path)
    again.load()

    assert (again.number, again.reached, again.pending) == (0, ledger.reached, pending)
    assert again.options == {"path": "/a"}


def test_a_damaged_record_is_not_believed(tmp_path: Path) -> None:
    Ledger(tmp_path).advance(Reached({"q.s1.us": 4}))
    path = tmp_path / LEDGER_FILE
    path.write_bytes(path.read_bytes().replace(b'"q.s1.us": 4', b'"q.s1.us": 5'))
    with pytest.raises(SiteAgentError, match="cannot be read"):
        Ledger(tmp_path).load()


def test_commits_follow_one_another(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    with pytest.raises(SiteAgentError, match="cannot follow"):
        ledger.prepare(Pending(commit_of(2, [("c", 0)]), {"c": "us"}, Reached()))
    with pytest.raises(SiteAgentError, match="no commit is pending"):
        ledger.perform(ParquetSink().open({"path": str(tmp_path)}, "q-1"), [])
