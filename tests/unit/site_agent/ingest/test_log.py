from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from site_agent.base.errors import (
    CorruptLogError,
    DiskFullError,
    IngestError,
    SequenceGapError,
    StreamEndedError,
    UnknownStreamError,
)
from site_agent.ingest import Acknowledged, NoRoom
from site_agent.ingest.options import LogLimits
from site_agent.ingest.producers import PRODUCER_MEMORY
from tests.unit.site_agent.fakes import VirtualClock
from tests.unit.site_agent.ingest.disk import FullDisk
from tests.unit.site_agent.ingest.logs import SMALL, open_log, push, stored, values


def test_rows_come_back_in_the_order_of_their_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.append([push("a", 1, [1, 2]), push("b", 1, [3])]) == [Acknowledged(1, 2), Acknowledged(1, 1)]
    assert log.append([push("a", 2, [])]) == [Acknowledged(2, 0)]

    assert values(log) == [1, 2, 3]
    assert (log.kept.next_record, log.kept.next_row) == (3, 3)


def test_a_batch_is_stored_once_however_often_it_comes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([push("a", 1), push("a", 2)])

    assert stored(log.append([push("a", 2), push("a", 1), push("a", 3), push("a", 3)])) == [
        (2, True),
        (1, True),
        (3, False),
        (3, True),
    ]
    again = open_log(tmp_path)
    assert stored(again.append([push("a", 3)])) == [(3, True)]
    assert values(again) == [1, 2, 3]


def test_a_gap_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    (first,) = log.append([push("a", 2)])
    assert isinstance(first, SequenceGapError)
    assert first.ids == {"producer": "a", "expected_sequence": "1"}

    one, gap, two = log.append([push("a", 1), push("a", 3), push("b", 1)])
    assert isinstance(one, Acknowledged)
    assert isinstance(gap, SequenceGapError)
    assert isinstance(two, Acknowledged)
    assert log.last_sequence("a") == 1


def test_producers_outlive_the_segments_that_tell_of_them(tmp_path: Path) -> None:
    clock = VirtualClock()
    log = open_log(tmp_path, limits=LogLimits(timedelta(seconds=1), segment_bytes=1), clock=clock)
    log.append([push("a", 1)])
    log.append([push("b", 1)])
    clock.elapsed_s += 10.0
    log.trim()
    assert log.kept.first_record == log.kept.next_record == 2

    again = open_log(tmp_path, clock=clock)
    assert (again.last_sequence("a"), again.last_sequence("b")) == (1, 1)
    assert again.kept.next_row == 2


def test_a_producer_that_is_silent_for_long_is_forgotten(tmp_path: Path) -> None:
    clock = VirtualClock()
    log = open_log(tmp_path, limits=LogLimits(timedelta(seconds=1), segment_bytes=1), clock=clock)
    log.append([push("a", 1)])
    clock.elapsed_s += PRODUCER_MEMORY.total_seconds() + 1
    log.append([push("b", 1)])
    assert (log.last_sequence("a"), log.last_sequence("b")) == (0, 1)


def test_what_every_reader_has_passed_is_trimmed_when_it_is_old(tmp_path: Path) -> None:
    clock = VirtualClock()
    log = open_log(tmp_path, limits=LogLimits(timedelta(seconds=60), segment_bytes=1), clock=clock)
    log.room.set_readers(["q1", "q2"])
    for sequence in range(1, 5):
        log.append([push("a", sequence)])
    log.room.advance("q1", 4)
    clock.elapsed_s += 61.0
    log.trim()
    assert log.kept.first_record == 0, "q2 has not said where it is"

    log.room.advance("q2", 2)
    log.trim()
    assert values(log) == [3, 4]
    log.room.set_readers(["q1"])
    log.trim()
    assert values(log) == []


def test_a_full_log_waits_for_its_readers_and_loses_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, limits=LogLimits(retention_bytes=2000, segment_bytes=500))
    log.room.set_readers(["q1"])
    sequence, outcome = 0, log.append([push("a", 1)])[0]
    while isinstance(outcome, Acknowledged):
        sequence += 1
        (outcome,) = log.append([push("a", sequence + 1)])
    assert isinstance(outcome, NoRoom)
    assert "q1" in outcome.reason
    assert sequence > 2
    assert stored(log.append([push("a", 1)])) == [(1, True)], "what is known needs no room"
    changes = log.room.count

    log.room.advance("q1", sequence)
    assert log.room.count > changes
    assert stored(log.append([push("a", sequence + 1)])) == [(sequence + 1, False)]
    assert values(log)[-1] == sequence + 1


def test_without_readers_a_full_log_drops_its_oldest(tmp_path: Path) -> None:
    log = open_log(tmp_path, limits=LogLimits(retention_bytes=2000, segment_bytes=500))
    for sequence in range(1, 30):
        assert stored(log.append([push("a", sequence)])) == [(sequence, False)]
    kept = values(log)
    assert kept == list(range(kept[0], 30))
    assert 1 < kept[0] < 30
    assert log.kept.size_bytes <= 2000 + 500, "the head of a new segment comes on top"


def test_a_batch_larger_than_the_budget_is_taken_by_an_empty_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, limits=LogLimits(retention_bytes=10, segment_bytes=300))
    log.room.set_readers(["q1"])
    assert stored(log.append([push("a", 1)])) == [(1, False)]
    assert isinstance(log.append([push("a", 2)])[0], NoRoom)
    log.room.advance("q1", 1)
    assert stored(log.append([push("a", 2)])) == [(2, False)]


def test_an_ended_log_takes_nothing_new_and_knows_what_it_has(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([push("a", 1)])
    assert (log.finish(), log.finish()) == (1, 1)

    again = open_log(tmp_path)
    assert again.ended
    known, new = again.append([push("a", 1), push("a", 2)])
    assert known == Acknowledged(1, 0, duplicate=True)
    assert isinstance(new, StreamEndedError)
    assert values(again) == [1]


def test_extents_and_lags_count_rows_and_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path, limits=replace(SMALL, segment_bytes=100_000))
    log.append([push("a", n, [n] * 10) for n in range(1, 6)])
    assert log.kept.extent(0, rows=25, raw_bytes=1_000_000) == 2
    assert log.kept.extent(1, rows=5, raw_bytes=1_000_000) == 2, "one record at least"
    assert log.kept.extent(0, rows=1000, raw_bytes=1) == 1
    assert log.kept.extent(2, rows=1000, raw_bytes=1_000_000) == 5
    assert log.kept.extent(5, rows=1000, raw_bytes=1_000_000) == 5
    assert [log.kept.rows_from(n) for n in (0, 2, 5)] == [50, 30, 0]
    with pytest.raises(CorruptLogError, match="not record 6"):
        log.kept.extent(6, rows=1, raw_bytes=1)


def test_an_extent_goes_over_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path, limits=LogLimits(segment_bytes=1))
    for number in range(1, 6):
        log.append([push("a", number, [number] * 10)])
    assert len(list(tmp_path.glob("*.segment"))) == 5
    assert log.kept.extent(0, rows=1000, raw_bytes=1_000_000) == 5
    assert log.kept.extent(1, rows=25, raw_bytes=1_000_000) == 3
    assert log.kept.extent(1, rows=5, raw_bytes=1_000_000) == 2
    one = log.kept.read(0, 1, ["v"]).nbytes
    assert log.kept.extent(0, rows=1000, raw_bytes=one) == 1
    assert log.kept.read(1, 4, ["v"]).column("v").to_pylist() == [2] * 10 + [3] * 10 + [4] * 10


@pytest.mark.parametrize("truncates", [True, False])
def test_a_full_disk_is_said_and_the_log_stays_sound(tmp_path: Path, truncates: bool) -> None:
    disk = FullDisk()
    disk.truncates = truncates
    log = open_log(tmp_path, files=disk, limits=LogLimits())
    log.append([push("a", 1)])
    disk.free_bytes = 50
    with pytest.raises(DiskFullError, match="nothing of this was stored"):
        log.append([push("a", 2), push("b", 1)])
    assert (log.last_sequence("a"), log.last_sequence("b"), log.kept.next_record) == (1, 0, 1)

    disk.free_bytes = None
    assert stored(log.append([push("b", 1, [9]), push("a", 2)])) == [(1, False), (2, False)]
    assert values(log) == values(open_log(tmp_path)) == [1, 9, 2]


def test_no_room_for_a_new_segment_changes_nothing(tmp_path: Path) -> None:
    disk = FullDisk()
    log = open_log(tmp_path, files=disk, limits=LogLimits(segment_bytes=1))
    log.append([push("a", 1)])
    disk.free_bytes = 5
    with pytest.raises(DiskFullError):
        log.append([push("a", 2)])
    disk.free_bytes = None
    log.append([push("a", 2)])
    assert values(open_log(tmp_path)) == [1, 2]


def test_after_a_segment_that_may_be_there_nothing_goes_to_the_one_before(tmp_path: Path) -> None:
    disk, clock = FullDisk(), VirtualClock()
    log = open_log(tmp_path, files=disk, limits=LogLimits(timedelta(seconds=1)), clock=clock)
    log.append([push("a", 1)])
    clock.elapsed_s += 10
    disk.creates = False
    with pytest.raises(IngestError, match="input/output error"):
        log.trim()
    with pytest.raises(IngestError):
        log.append([push("a", 2)])
    disk.creates = True
    log.append([push("a", 2)])
    assert values(open_log(tmp_path)) == [1, 2]


def test_a_torn_tail_is_cut_off(tmp_path: Path) -> None:
    log = open_log(tmp_path, limits=LogLimits())
    log.append([push("a", 1)])
    (segment,) = tmp_path.glob("*.segment")
    segment.write_bytes(segment.read_bytes() + b"SLP1" + bytes(50))

    again = open_log(tmp_path, limits=LogLimits())
    again.append([push("a", 2)])
    assert values(open_log(tmp_path)) == [1, 2]


@pytest.mark.parametrize("segment_bytes", [1, 100_000], ids=["an-older-segment", "the-last-segment"])
def test_damage_of_what_was_acknowledged_is_refused_and_names_the_file(tmp_path: Path, segment_bytes: int) -> None:
    log = open_log(tmp_path, limits=LogLimits(segment_bytes=segment_bytes))
    for sequence in (1, 2):
        log.append([push("a", sequence)])
    first = min(tmp_path.glob("*.segment"))
    content = bytearray(first.read_bytes())
    content[-5] ^= 1
    first.write_bytes(content)

    with pytest.raises(CorruptLogError, match=first.name):
        values(open_log(tmp_path))


def test_a_cut_or_missing_file_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, limits=LogLimits(segment_bytes=1))
    for sequence in (1, 2, 3):
        log.append([push("a", sequence)])
    paths = sorted(tmp_path.glob("*.segment"))
    kept = paths[1].read_bytes()
    paths[1].write_bytes(kept[:-1])
    with pytest.raises(CorruptLogError, match="records 1 to 1 are missing"):
        open_log(tmp_path)
    paths[1].write_bytes(kept)
    paths[2].unlink()
    with pytest.raises(CorruptLogError, match="record 2 on is gone"):
        open_log(tmp_path)
    paths[0].write_bytes(b"")
    with pytest.raises(CorruptLogError, match="head cannot be read"):
        open_log(tmp_path)


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.close()
    with pytest.raises(UnknownStreamError):
        log.append([push("a", 1)])
