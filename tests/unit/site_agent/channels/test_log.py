from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.base.errors import (
    ChannelError,
    ChannelRequestError,
    CorruptEpochError,
    LostChannelError,
    UnknownChannelError,
)
from site_agent.base.files import Files
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import BinRange, EndMark, Standing
from site_agent.channels.pace import ChannelReader, QueryReaders
from site_agent.channels.store import ChannelStore

pytestmark = pytest.mark.timeout(20)

TABLE = pa.table({"k": ["b", "a", "c"], "n": [1, 2, 3], "_bin": pa.array([1, 0, 1], pa.int32())})


@pytest.fixture
def store(tmp_path: Path) -> ChannelStore:
    return ChannelStore(tmp_path)


@pytest.fixture
def log(store: ChannelStore) -> ChannelLog:
    return store.open("q.s.ewr")


def test_an_epoch_is_read_as_it_was_published(log: ChannelLog) -> None:
    manifest = log.publish(0, TABLE, watermark_us=5, idle=True, commit={"offset": 3})
    assert (manifest.rows, manifest.watermark_us, manifest.idle, manifest.commit) == (3, 5, True, {"offset": 3})
    assert manifest.bins == (BinRange(0, 0, 1), BinRange(1, 1, 2))
    assert log.epochs.manifest(0) == log.epochs.last_manifest == manifest
    rows = log.epochs.read(0)
    assert rows is not None
    assert rows.to_pydict() == {"k": ["a", "b", "c"], "n": [2, 1, 3]}
    part = log.epochs.read(0, columns=["n"], bins=[1])
    assert part is not None
    assert part.to_pydict() == {"n": [1, 3]}
    assert log.epochs.read(0, bins=[7]) is None
    with pytest.raises(ChannelRequestError):
        log.epochs.read(0, columns=["x"])


@pytest.mark.parametrize("table", [None, TABLE.slice(0, 0)])
def test_an_epoch_without_rows_is_only_a_manifest(log: ChannelLog, table: pa.Table | None) -> None:
    manifest = log.publish(0, table, watermark_us=9)
    assert (manifest.rows, manifest.size_bytes, manifest.crc32, manifest.raw_bytes) == (0, 0, 0, 0)
    assert log.epochs.read(0) is None


def test_a_published_epoch_stays_what_it_is(log: ChannelLog) -> None:
    first = log.publish(0, TABLE, watermark_us=1)
    assert log.publish(0, None, watermark_us=2) == first
    log.finish()
    assert log.publish(0, None, watermark_us=2) == first


def test_epochs_are_published_in_order(log: ChannelLog) -> None:
    with pytest.raises(ChannelError, match="out of order") as caught:
        log.publish(1, TABLE, watermark_us=None)
    assert caught.value.hint == "publish epoch 0 first"


def test_nothing_follows_the_end_and_the_first_end_counts(store: ChannelStore, log: ChannelLog) -> None:
    log.publish(0, TABLE, watermark_us=None)
    log.finish_as(EndMark(0, "q.s.jfk", "jfk"))
    log.finish()
    assert log.end == EndMark(0, "q.s.jfk", "jfk")
    with pytest.raises(ChannelError, match="has ended"):
        log.publish(1, None, watermark_us=None)
    assert ChannelStore(store.root).open("q.s.ewr").end == log.end
    empty = store.open("empty")
    empty.finish()
    assert empty.end == EndMark(None)


def test_the_last_manifest_outlives_its_rows(store: ChannelStore, log: ChannelLog) -> None:
    log.set_consumers(["jfk"])
    for epoch in range(3):
        log.publish(epoch, TABLE, watermark_us=epoch, commit={"offset": epoch})
    log.acknowledge("jfk", 2)
    for seen in (log, ChannelStore(store.root).open("q.s.ewr")):
        assert (seen.first_epoch, seen.next_epoch, seen.epochs.retained_bytes) == (3, 3, 0)
        assert seen.epochs.last_manifest is not None
        assert seen.epochs.last_manifest.commit == {"offset": 2}


def test_what_is_not_published_cannot_be_acknowledged(log: ChannelLog) -> None:
    log.set_consumers(["jfk"])
    with pytest.raises(ChannelError, match="not published yet"):
        log.acknowledge("jfk", 0)


def test_a_log_that_holds_epochs_begins_where_it_begins(log: ChannelLog) -> None:
    log.begin_at(4)
    log.begin_at(4)
    log.publish(4, TABLE, watermark_us=None)
    with pytest.raises(ChannelError, match="cannot begin at epoch 9"):
        log.begin_at(9)


def test_reading_one_epoch_touches_no_other(log: ChannelLog) -> None:
    for epoch in range(3):
        log.publish(epoch, TABLE, watermark_us=None)
    for epoch in (0, 2):
        (log.directory / f"{epoch:012d}.epoch").write_bytes(b"rubbish")
    assert log.epochs.read(1) is not None
    with pytest.raises(CorruptEpochError):
        log.epochs.read(0)


def test_opening_reads_no_epoch(store: ChannelStore, log: ChannelLog) -> None:
    for epoch in range(3):
        log.publish(epoch, TABLE, watermark_us=None)
        (log.directory / f"{epoch:012d}.epoch").write_bytes(b"rubbish")
    again = ChannelStore(store.root).open("q.s.ewr")
    assert (again.first_epoch, again.next_epoch) == (0, 3)
    with pytest.raises(CorruptEpochError):
        _ = again.epochs.last_manifest


def test_what_lies_below_a_gap_was_given_up(store: ChannelStore, log: ChannelLog) -> None:
    for epoch in range(5):
        log.publish(epoch, TABLE, watermark_us=None)
    (log.directory / "000000000002.epoch").unlink()
    again = ChannelStore(store.root).open("q.s.ewr")
    assert (again.first_epoch, again.next_epoch) == (3, 5)
    assert sorted(path.name for path in log.directory.glob("*.epoch")) == ["000000000003.epoch", "000000000004.epoch"]


def test_damaged_consumers_keep_everything(store: ChannelStore, log: ChannelLog) -> None:
    log.set_consumers(["jfk"])
    for epoch in range(3):
        log.publish(epoch, TABLE, watermark_us=None)
    log.acknowledge("jfk", 0)
    (log.directory / "consumers.json").write_text('{"cursors": 5}')
    again = ChannelStore(store.root).open("q.s.ewr")
    assert (again.first_epoch, again.readers.consumers) == (1, ())


class FullDisk(Files):
    def replace(self, source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_reported_and_can_be_retried(tmp_path: Path) -> None:
    files = Files()
    log = ChannelStore(tmp_path, files).open("c")
    full = FullDisk()
    files.replace = full.replace  # type: ignore[method-assign]
    with pytest.raises(ChannelError, match="the disk is full: cannot write epoch 0 of channel c"):
        log.publish(0, TABLE, watermark_us=None)
    assert log.next_epoch == 0
    del files.replace
    assert log.publish(0, TABLE, watermark_us=None).rows == 3


async def test_waiting_ends_with_the_epoch_or_the_end(log: ChannelLog) -> None:
    first, second = asyncio.create_task(log.state.wait(0)), asyncio.create_task(log.state.wait(1))
    thread = threading.Thread(target=log.publish, args=(0, TABLE), kwargs={"watermark_us": None})
    thread.start()
    await first
    await log.state.wait(0)
    assert not second.done()
    log.finish()
    await second
    thread.join()


async def test_a_removed_channel_is_not_waited_for(store: ChannelStore, log: ChannelLog) -> None:
    waiting = asyncio.create_task(log.state.wait(0))
    await asyncio.sleep(0)
    store.remove("q.s.ewr")
    with pytest.raises(UnknownChannelError):
        await waiting
    for use in (lambda: log.publish(0, None, watermark_us=None), lambda: log.set_consumers(["x"]), log.finish):
        with pytest.raises(UnknownChannelError):
            use()


READERS = (
    QueryReaders("a", (ChannelReader("jfk", "a.m"),)),
    QueryReaders("b", (ChannelReader("jfk", "b.m"), ChannelReader("lga", "b.k"))),
)


def waits(log: ChannelLog) -> dict[str, int]:
    return {waiting.query_id: waiting.size_bytes for waiting in log.readers.waiting()}


def test_what_waits_is_counted_for_each_query(store: ChannelStore, log: ChannelLog) -> None:
    log.set_consumers(["jfk", "lga"])
    for epoch in range(4):
        log.publish(epoch, TABLE if epoch % 2 else None, watermark_us=None)
    sizes = [log.epochs.stored_bytes(epoch) for epoch in range(4)]
    assert waits(log) == {"": sum(sizes)}
    log.readers.set_queries(READERS)
    assert waits(log) == {"a": sum(sizes), "b": sum(sizes)}
    log.readers.passed("jfk", "a.m", 4)
    log.readers.passed("jfk", "b.m", 3)
    log.acknowledge("lga", 0)
    assert waits(log) == {"a": 0, "b": sum(sizes[1:])}
    # All the same nothing may go: a site keeps what one of its readers needs.
    assert (log.first_epoch, log.epochs.retained_bytes) == (0, sum(sizes))
    log.acknowledge("jfk", 1)
    log.acknowledge("lga", 2)
    assert (waits(log), log.first_epoch) == ({"a": 0, "b": sizes[3]}, 2)
    with pytest.raises(ChannelError, match="not published yet"):
        log.readers.passed("jfk", "a.m", 5)
    store.open("other")
    again = ChannelStore(store.root).open(log.id)
    again.readers.set_queries(READERS)
    # Sites say again what their readers passed.
    assert waits(again) == {"a": sizes[2] + sizes[3], "b": sizes[2] + sizes[3]}
    again.readers.set_queries(())
    assert waits(again) == {"": sizes[2] + sizes[3]}


def test_an_epoch_that_was_put_right_counts_with_its_new_size(log: ChannelLog) -> None:
    log.set_consumers(["jfk"])
    log.readers.set_queries(READERS)
    for epoch in range(3):
        log.publish(epoch, TABLE, watermark_us=None)
    manifest, encoded = log.epochs.read_encoded(1)
    log.put_right(manifest, encoded)
    log.readers.passed("jfk", "a.m", 1)
    assert waits(log)["a"] == log.epochs.stored_bytes(1) + log.epochs.stored_bytes(2)


def test_what_a_channel_last_said_outlives_its_rows_and_the_process(tmp_path: Path) -> None:
    log = ChannelStore(tmp_path).open("c")
    assert log.standing is None
    log.set_consumers(["hub"])
    log.publish(0, TABLE, watermark_us=5)
    log.publish(1, None, watermark_us=5, idle=True)
    log.acknowledge("hub", 1)
    assert log.first_epoch == log.next_epoch == 2
    assert log.standing == ChannelStore(tmp_path).open("c").standing == Standing(2, 5, idle=True)
    log.publish(2, None, watermark_us=6)
    assert log.standing == Standing(3, 6)


def test_a_copy_without_epochs_learns_what_was_said_before_them(tmp_path: Path) -> None:
    copy = ChannelStore(tmp_path).open("c")
    copy.begin_at(4)
    copy.learn(Standing(3, 1, idle=True))
    assert copy.standing is None
    copy.learn(Standing(4, 9, idle=True))
    assert copy.standing == ChannelStore(tmp_path).open("c").standing == Standing(4, 9, idle=True)
    copy.publish(4, TABLE, watermark_us=10)
    assert copy.standing == ChannelStore(tmp_path).open("c").standing == Standing(5, 10)
    # Its own newest epoch takes precedence over what its producer sends.
    copy.learn(Standing(5, 99))
    assert copy.standing == Standing(5, 10)


def test_a_copy_whose_newest_epoch_is_damaged_learns_it_anew(tmp_path: Path) -> None:
    first = ChannelStore(tmp_path).open("c")
    first.publish(0, TABLE, watermark_us=5, idle=True)
    path = first.directory / f"{0:012d}.epoch"
    path.write_bytes(b"\0" * path.stat().st_size)
    copy = ChannelStore(tmp_path).open("c")
    assert copy.standing is None
    copy.learn(Standing(1, 5, idle=True))
    assert copy.standing == Standing(1, 5, idle=True)


def test_where_a_log_begins_it_may_know_what_was_said_before(tmp_path: Path) -> None:
    log = ChannelStore(tmp_path).open("c")
    log.begin_at(3, standing=Standing(3, 7, idle=True))
    assert log.standing == ChannelStore(tmp_path).open("c").standing == Standing(3, 7, idle=True)


async def test_who_waits_for_an_epoch_or_for_what_was_said_before_it(tmp_path: Path) -> None:
    copy = ChannelStore(tmp_path).open("c")
    copy.begin_at(4)
    either = asyncio.create_task(copy.state.wait(4, or_standing=True))
    epoch = asyncio.create_task(copy.state.wait(4))
    await asyncio.sleep(0)
    copy.learn(Standing(4, 9))
    await asyncio.wait_for(either, 10)
    assert not epoch.done()
    copy.publish(4, None, watermark_us=10)
    await asyncio.wait_for(epoch, 10)


async def test_who_waits_for_what_does_not_come_is_told(tmp_path: Path) -> None:
    copy = ChannelStore(tmp_path).open("c")
    copy.publish(0, None, watermark_us=1)
    waiting = asyncio.create_task(copy.state.wait(1))
    await asyncio.sleep(0)
    copy.state.set_lost(LostChannelError("ewr does not send it"))
    with pytest.raises(LostChannelError):
        await waiting
    # Epochs that are here can still be read.
    await asyncio.wait_for(copy.state.wait(0), 10)
    copy.state.set_lost(None)
    copy.state.check_can_come(1)


def test_a_channel_that_another_continues_is_drained_once_all_readers_have_all_and_know_it(store: ChannelStore) -> None:
    log = store.open("q.m1")
    log.set_consumers(["ewr", "jfk", "lga"])
    log.publish(0, None, watermark_us=5)
    log.finish_as(EndMark(0, "q.m1.g1", "lga", 5))
    assert not log.readers.drained("ewr")
    log.acknowledge("ewr", 0)
    log.acknowledge("jfk", 0)
    log.passed_end("jfk")
    log.acknowledge("lga", 0)
    assert not log.readers.drained("ewr")
    log.passed_end("lga")
    again = ChannelStore(store.root).open("q.m1")
    assert (again.readers.drained("ewr"), again.readers.drained("jfk")) == (True, False)
    assert again.end == EndMark(0, "q.m1.g1", "lga", 5)
    again.set_consumers(["ewr", "jfk", "lga", "sfo"])
    assert not again.readers.drained("ewr")


def test_what_its_own_site_keeps_for_clients_does_not_keep_a_channel_from_being_drained(log: ChannelLog) -> None:
    log.set_consumers(["jfk"])
    log.publish(0, None, watermark_us=5)
    log.finish_as(EndMark(0, "q.m1.g1", "lga", 5))
    assert not log.readers.drained("jfk")
    log.readers.set_awaited("jfk", None)
    assert log.readers.drained("jfk")
