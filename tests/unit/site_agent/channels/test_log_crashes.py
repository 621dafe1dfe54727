"""ChannelLog against a model in memory, with crashes anywhere."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from site_agent.base.errors import ChannelError, TrimmedEpochError
from site_agent.base.files import Files
from site_agent.channels.codec import EncodedRows, encode
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import BinRange, EpochManifest
from site_agent.channels.store import ChannelStore
from tests.unit.site_agent.channels.crash import Crash, CrashingFiles

pytestmark = pytest.mark.timeout(120)

NAMES = ("ewr", "jfk", "lga")
Rows = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Model:
    """What the log must look like."""

    first: int = 0
    epochs: tuple[Rows, ...] = ()
    """All ever published, (bin, value) each."""
    begin: int = 0
    cursors: dict[str, int] = field(default_factory=dict)
    end: bool = False

    @property
    def next(self) -> int:
        return self.begin + len(self.epochs)

    def trimmed(self) -> Model:
        return replace(self, first=max(self.first, min(self.cursors.values()))) if self.cursors else self

    def published(self, rows: Rows) -> Model:
        return replace(self, epochs=(*self.epochs, rows))

    def named(self, names: frozenset[str]) -> Model:
        return replace(self, cursors={name: self.cursors.get(name, self.first) for name in names}).trimmed()

    def acknowledged(self, name: str, epoch: int) -> Model:
        if epoch < self.cursors.get(name, epoch + 1):
            return self
        return replace(self, cursors={**self.cursors, name: epoch + 1}).trimmed()


def table_of(rows: Rows) -> pa.Table | None:
    if not rows:
        return None
    return pa.table({"v": [v for _, v in rows], "_bin": pa.array([b for b, _ in rows], pa.int32())})


def grouped(rows: Rows) -> list[int]:
    return [v for _, v in sorted(rows, key=lambda row: row[0])]


def looks_like(log: ChannelLog, model: Model) -> bool:
    """Compares everything that can be seen of a log."""
    return (
        (log.first_epoch, log.next_epoch) == (model.first, model.next)
        and (log.end is not None) == model.end
        and dict.fromkeys(log.readers.consumers) == dict.fromkeys(sorted(model.cursors))
        and all(
            log.readers.acknowledged(name) == (cursor - 1 if cursor else None) for name, cursor in model.cursors.items()
        )
        and (log.epochs.last_manifest.commit if log.epochs.last_manifest else None)
        == ({"at": model.next - 1} if model.epochs else None)
        and all(holds(log, epoch, model.epochs[epoch - model.begin]) for epoch in range(model.first, model.next))
    )


def holds(log: ChannelLog, epoch: int, rows: Rows) -> bool:
    table = log.epochs.read(epoch)
    return ([] if table is None else table.column("v").to_pylist()) == grouped(rows)


crash_points = st.none() | st.integers(0, 8)
rows_lists = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=5).map(tuple)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="channel-log-"))
        self.files = CrashingFiles()
        self.model = Model()
        self.open()

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def open(self) -> None:
        self.log = ChannelStore(self.root, self.files).open("q.s.ewr")

    def change(self, crash_after: int | None, after: Model, operation: Callable[[], object]) -> None:
        """Either it happens or it does not, whatever crashes."""
        self.files.arm(crash_after)
        try:
            operation()
        except Crash:
            self.files.arm(None)
            self.open()
            if looks_like(self.log, self.model):
                return
        self.files.arm(None)
        self.model = after
        assert looks_like(self.log, self.model)

    @precondition(lambda self: not self.model.end)
    @rule(rows=rows_lists, crash_after=crash_points)
    def publish(self, rows: Rows, crash_after: int | None) -> None:
        epoch = self.model.next
        self.change(
            crash_after,
            self.model.published(rows),
            lambda: self.log.publish(epoch, table_of(rows), watermark_us=epoch, commit={"at": epoch}),
        )

    @precondition(lambda self: self.model.first < self.model.next)
    @rule(data=st.data())
    def publish_again(self, data: st.DataObject) -> None:
        epoch = data.draw(st.integers(self.model.first, self.model.next - 1))
        manifest = self.log.publish(epoch, table_of(((9, 9),)), watermark_us=-1)
        assert manifest == self.log.epochs.manifest(epoch)
        assert manifest.watermark_us == epoch

    @rule(names=st.frozensets(st.sampled_from(NAMES)), crash_after=crash_points)
    def set_consumers(self, names: frozenset[str], crash_after: int | None) -> None:
        self.change(crash_after, self.model.named(names), lambda: self.log.set_consumers(names))

    @precondition(lambda self: self.model.next > 0)
    @rule(data=st.data(), name=st.sampled_from(NAMES), crash_after=crash_points)
    def acknowledge(self, data: st.DataObject, name: str, crash_after: int | None) -> None:
        epoch = data.draw(st.integers(0, self.model.next - 1))
        self.change(crash_after, self.model.acknowledged(name, epoch), lambda: self.log.acknowledge(name, epoch))

    @precondition(lambda self: len(self.model.epochs) > 6)
    @rule(crash_after=crash_points)
    def finish(self, crash_after: int | None) -> None:
        self.change(crash_after, replace(self.model, end=True), self.log.finish)

    @precondition(lambda self: self.model.next == 0 and not self.model.end)
    @rule(first=st.integers(1, 5), crash_after=crash_points)
    def begin_at(self, first: int, crash_after: int | None) -> None:
        cursors = dict.fromkeys(self.model.cursors, first)
        moved = replace(self.model, begin=first, first=first, cursors=cursors)
        self.change(crash_after, moved, lambda: self.log.begin_at(first))

    @rule()
    def reopen(self) -> None:
        self.open()

    @rule()
    def power_loss(self) -> None:
        """Forgets acknowledgements at most: saying them again restores the state, nothing that is needed is lost."""
        self.files.lose_power()
        self.open()
        assert self.log.next_epoch == self.model.next
        assert self.log.first_epoch <= self.model.first
        self.log.set_consumers(self.model.cursors)
        for name, cursor in self.model.cursors.items():
            if cursor:
                self.log.acknowledge(name, cursor - 1)

    @invariant()
    def same(self) -> None:
        assert looks_like(self.log, self.model)

    @invariant()
    def nothing_else_is_kept(self) -> None:
        kept = sorted(int(path.stem) for path in self.log.directory.glob("*.epoch"))
        needed = list(range(self.model.first, self.model.next))
        # The newest file stays for its manifest.
        assert kept == (needed or ([self.model.next - 1] if self.model.epochs else []))
        sizes = [(self.log.directory / f"{epoch:012d}.epoch").stat().st_size for epoch in needed]
        assert self.log.epochs.retained_bytes == sum(sizes)
        assert not list(self.log.directory.glob("*.tmp"))

    @invariant()
    def outside_is_refused(self) -> None:
        if self.model.first > 0:
            with pytest.raises(TrimmedEpochError):
                self.log.epochs.read(self.model.first - 1)
        with pytest.raises(ChannelError):
            self.log.epochs.read(self.model.next)
        with pytest.raises(ChannelError):
            self.log.publish(self.model.next + 1, None, watermark_us=None)

    @invariant()
    def lag_is_the_sum_of_rows(self) -> None:
        counts = [len(rows) for rows in self.model.epochs]
        for epoch in range(self.model.first, self.model.next + 1):
            assert self.log.epochs.rows_from(epoch) == sum(counts[epoch - self.model.begin :])


LogMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLog = LogMachine.TestCase


def test_every_crash_point_of_a_publish_leaves_all_or_nothing(tmp_path: Path) -> None:
    """Write, rename, directory sync: an epoch is there from the rename on, and never in part."""
    seen = []
    for crash_after in range(4):
        files = CrashingFiles()
        log = ChannelStore(tmp_path / str(crash_after), files).open("c")
        log.publish(0, table_of(((0, 1),)), watermark_us=1)
        files.arm(crash_after)
        try:
            log.publish(1, table_of(((2, 7), (1, 8))), watermark_us=2, commit={"offset": 5})
        except Crash:
            assert log.next_epoch == 1
        files.arm(None)
        again = ChannelStore(tmp_path / str(crash_after), files).open("c")
        seen.append(again.next_epoch)
        if again.next_epoch == 2:
            assert again.epochs.manifest(1).bins == (BinRange(1, 0, 1), BinRange(2, 1, 1))
            assert again.epochs.manifest(1).commit == {"offset": 5}
            assert holds(again, 1, ((2, 7), (1, 8)))
    assert seen == [1, 1, 2, 2]


def test_a_crash_while_several_epochs_are_stored_leaves_the_first_of_them(tmp_path: Path) -> None:
    seen = set()
    for crash_after in range(8):
        files = CrashingFiles()
        log = ChannelStore(tmp_path / str(crash_after), files).open("q.s.ewr")
        for epoch in range(2):
            log.publish(epoch, table_of(((0, epoch),)), watermark_us=epoch)
        several = [received(epoch) for epoch in range(1, 5)]
        files.arm(crash_after)
        with suppress(Crash):
            log.append_all(several)
        files.arm(None)
        log = ChannelStore(tmp_path / str(crash_after), files).open("q.s.ewr")
        seen.add(log.next_epoch)
        assert [log.epochs.read(epoch) for epoch in range(log.next_epoch)] == [
            table(epoch) for epoch in range(log.next_epoch)
        ]
        assert not list(log.directory.glob("*.tmp"))
        log.append_all(several)
        assert log.next_epoch == 5
        assert log.epochs.rows_from(0) == 5
        assert [manifest.epoch for manifest in map(log.epochs.manifest, range(5))] == list(range(5))
    assert seen == {2, 3, 4, 5}


def test_a_crash_while_a_whole_channel_is_published_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    seen = []
    for crash_after in range(12):
        files = CrashingFiles()
        log = ChannelStore(tmp_path / str(crash_after), files).open("q.s.ewr")
        files.arm(crash_after)
        with suppress(Crash):
            log.publish_all(map(encoded, range(3)), {"rows": 3})
        files.lose_power()
        files.arm(None)
        log = ChannelStore(tmp_path / str(crash_after), files).open("q.s.ewr")
        seen.append(log.next_epoch)
        assert not list(log.directory.glob("*.tmp"))
        assert not (log.directory / "whole.json").exists()
        size_bytes = log.publish_all(map(encoded, range(3)), {"rows": 3})
        assert [log.epochs.read(epoch) for epoch in range(log.next_epoch)] == [table(epoch) for epoch in range(3)]
        assert log.epochs.rows_from(0) == 3
        last = log.epochs.last_manifest
        assert last is not None
        assert last.commit == {"rows": 3, "bytes_out": size_bytes}
        assert size_bytes == sum(log.epochs.manifest(epoch).size_bytes for epoch in range(3))
    assert set(seen) == {0, 3}
    assert seen == sorted(seen)


def test_a_disk_that_is_full_leaves_nothing_of_a_whole_channel(tmp_path: Path) -> None:
    log = ChannelStore(tmp_path, FullDisk(2)).open("q.s.ewr")
    with pytest.raises(ChannelError, match="the disk is full: cannot write epoch 1"):
        log.publish_all(map(encoded, range(3)), {})
    assert log.next_epoch == 0
    assert list(log.directory.iterdir()) == []
    assert log.publish_all(map(encoded, range(3)), {}) > 0
    assert log.next_epoch == 3


class FullDisk(Files):
    """Refuses one write, after so many."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    def write(self, path: Path, parts: Sequence[bytes], *, sync: bool) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(path, parts, sync=sync)


def test_several_epochs_are_stored_in_order_or_not_at_all(tmp_path: Path) -> None:
    log = ChannelStore(tmp_path).open("q.s.ewr")
    with pytest.raises(ChannelError, match=r"epoch 2 of channel q\.s\.ewr is out of order"):
        log.append_all([received(0), received(2)])
    assert (log.next_epoch, log.epochs.retained_bytes) == (0, 0)
    log.append_all([])
    log.append_all([received(0), received(1)])
    assert log.epochs.retained_bytes == sum(log.epochs.stored_bytes(epoch) for epoch in range(2)) > 0
    assert log.epochs.stored_bytes(2) == 0


def table(epoch: int) -> pa.Table:
    return pa.table({"v": [epoch]})


def encoded(epoch: int) -> EncodedRows:
    return encode(table(epoch))


def received(epoch: int) -> tuple[EpochManifest, EncodedRows]:
    return EpochManifest(epoch, 0, 0, 0, epoch, False, ()), encode(table(epoch))
