from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.prepared import PIN_NAME, SHARED_NAME, PreparedFiles
from site_agent.connectors.files.replay import Pace, ReplaySource
from site_agent.connectors.sources import Offset, Poll, ReadLimit, Source, SourceContext
from site_agent.engine import MalformedFile, SlicesScan
from site_agent.engine.scans.malformed import read_malformed
from site_agent.engine.scans.slices import read_slices
from tests.unit.site_agent.connectors.contexts import CREATED, source_context
from tests.unit.site_agent.connectors.preparers import LinesPreparer

SECOND_US = 1_000_000


class Replay:
    """Files of event times in seconds, and the sources of one site that replay them."""

    def __init__(self, root: Path, *texts: str) -> None:
        self.preparer = LinesPreparer()
        self.prepared = PreparedFiles(self.preparer)
        self.data = root / "data"
        self.sources = root / "sources"
        self.data.mkdir()
        for number, text in enumerate(texts):
            (self.data / f"{number}.csv").write_text(text)

    def context(self, task: str, **options: str) -> SourceContext:
        common: Mapping[str, str] = {"path": str(self.data), "format": "csv", "mode": "replay"}
        return source_context(self.sources / task, {**common, **options})

    def source(self, task: str = "task", **options: str) -> Source:
        return ReplaySource(self.context(task, **options), self.prepared)


def poll(source: Source, start: Offset, after_s: float = 0, **limits: int) -> Poll:
    return source.poll(start, now=CREATED + timedelta(seconds=after_s), limit=ReadLimit(**limits))


def values(source: Source, start: Offset, end: Offset) -> list[int]:
    scan = source.scan(start, end)
    assert isinstance(scan, SlicesScan)
    found: list[int] = read_slices(scan.slices, ["v"]).column("v").to_pylist()
    return found


def test_pace() -> None:
    pace = Pace(Fraction(10), clock_us=1000, event_us=5_000_000)
    assert [pace.event_time_us(clock) for clock in (1000, 1001, 1100)] == [5_000_000, 5_000_010, 5_001_000]
    assert pace.at_speed(Fraction(1, 2), 1100).event_time_us(1200) == 5_001_050


def test_rows_come_when_their_time_comes(tmp_path: Path) -> None:
    source = Replay(tmp_path, "130\n100\n110\n", "120\n105\n").source(replay_speed="10")
    start = source.initial()
    first = poll(source, start)
    assert (first.end, first.ended, first.event_time_floor_us) == ({"row": 1}, False, 105 * SECOND_US)
    assert values(source, start, first.end) == [1]
    second = poll(source, first.end, 1.0)
    assert (second.end, values(source, first.end, second.end)) == ({"row": 3}, [4, 2])
    assert poll(source, second.end, 1.9).empty
    last = poll(source, second.end, 100)
    assert (last.end, last.ended, last.event_time_floor_us) == ({"row": 5}, True, None)
    assert poll(source, last.end, 100) == Poll({"row": 5}, empty=True, ended=True)


def test_rows_without_a_time_come_first(tmp_path: Path) -> None:
    source = Replay(tmp_path, "200\n\n100\n\n").source()
    found = poll(source, source.initial())
    assert found.end == {"row": 3}
    assert sorted(values(source, {"row": 0}, {"row": 2})) == [1, 3]


def test_as_fast_as_it_goes(tmp_path: Path) -> None:
    source = Replay(tmp_path, "1\n1000000\n").source(replay_speed="max")
    found = poll(source, source.initial())
    assert (found.end, found.ended) == ({"row": 2}, True)


def test_what_is_beyond_the_limit_is_lag(tmp_path: Path) -> None:
    source = Replay(tmp_path, "1\n2\n3\n4\n5\n").source(replay_speed="max")
    found = poll(source, source.initial(), rows=2)
    assert (found.end, found.lag_rows, found.ended) == ({"row": 2}, 3, False)
    assert poll(source, source.initial(), size_bytes=1).end == {"row": 1}


def test_a_start_time_lines_sites_up(tmp_path: Path) -> None:
    source = Replay(tmp_path, "100\n200\n300\n").source(replay_start="1970-01-01T00:03:10Z", replay_speed="1")
    first = poll(source, source.initial())
    assert first.end == {"row": 1}
    assert poll(source, first.end, 9).empty
    assert poll(source, first.end, 10).end == {"row": 2}


def test_a_restart_goes_on_from_the_last_row_read(tmp_path: Path) -> None:
    replay = Replay(tmp_path, "100\n200\n300\n")
    again = replay.source(replay_speed="10")
    assert again.initial() == {"row": 0}
    assert poll(again, {"row": 2}, 5000).empty
    assert poll(again, {"row": 2}, 5009).empty
    assert poll(again, {"row": 2}, 5010).end == {"row": 3}


def test_the_speed_may_change(tmp_path: Path) -> None:
    source = Replay(tmp_path, "100\n200\n300\n").source(replay_speed="1")
    first = poll(source, source.initial())
    source.reconfigure({"replay_speed": "50"})
    assert poll(source, first.end, 10).empty
    assert poll(source, first.end, 12).end == {"row": 2}
    source.reconfigure({"replay_speed": "max"})
    assert poll(source, first.end, 12).end == {"row": 3}


def test_no_files_at_all(tmp_path: Path) -> None:
    source = Replay(tmp_path).source()
    assert poll(source, source.initial()) == Poll({"row": 0}, empty=True, ended=True)


def test_tasks_of_a_site_share_what_is_prepared(tmp_path: Path) -> None:
    replay = Replay(tmp_path, "1\n2\n")
    for task in ("one", "two", "one"):
        replay.source(task).initial()
    assert len(replay.preparer.calls) == 1
    replay.source("three", null_value="NA").initial()
    assert len(replay.preparer.calls) == 2


def test_a_replay_keeps_to_the_files_it_began_with(tmp_path: Path) -> None:
    replay = Replay(tmp_path, "1\n2\n")
    replay.source("old").initial()
    (replay.data / "more.csv").write_text("0\n")
    assert poll(replay.source("old", replay_speed="max"), {"row": 0}).end == {"row": 2}
    assert poll(replay.source("new", replay_speed="max"), {"row": 0}).end == {"row": 3}


def test_a_lost_copy_is_prepared_again_only_from_the_same_files(tmp_path: Path) -> None:
    replay = Replay(tmp_path, "1\n2\n")
    replay.source().initial()
    shutil.rmtree(replay.sources / SHARED_NAME)
    replay.source().initial()
    assert len(replay.preparer.calls) == 2
    shutil.rmtree(replay.sources / SHARED_NAME)
    (replay.data / "0.csv").write_text("3\n")
    with pytest.raises(ConnectorError, match="changed while they are replayed"):
        replay.source().initial()


def test_what_nobody_replays_any_more_is_removed(tmp_path: Path) -> None:
    replay = Replay(tmp_path, "1\n2\n")
    replay.source("gone").initial()
    shutil.rmtree(replay.sources / "gone")
    replay.source("kept").initial()
    (replay.data / "0.csv").write_text("3\n")
    replay.source("next").initial()
    pins = {(replay.sources / task / PIN_NAME).read_text() for task in ("kept", "next")}
    prepared = {path.name for path in (replay.sources / SHARED_NAME).iterdir()}
    assert len(prepared) == len(pins) == 2
    shutil.rmtree(replay.sources / "kept")
    (replay.data / "0.csv").write_text("44\n")
    replay.source("last").initial()
    assert len(list((replay.sources / SHARED_NAME).iterdir())) == 2


def test_an_interrupted_preparation_is_done_again(tmp_path: Path) -> None:
    replay = Replay(tmp_path, "1\nx\n")
    with pytest.raises(ValueError, match="x"):
        replay.source().initial()
    (replay.data / "0.csv").write_text("1\n2\n")
    assert poll(replay.source(replay_speed="max"), {"row": 0}).end == {"row": 2}


def test_an_offset_beyond_the_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="replay of 1 rows cannot go on at row 5"):
        poll(Replay(tmp_path, "1\n").source(), {"row": 5})


def malformed(source: Source, start: Offset, end: Offset) -> MalformedFile | None:
    scan = source.scan(start, end)
    assert isinstance(scan, SlicesScan)
    return scan.malformed


def test_malformed_rows_come_with_the_first_rows_of_each_task(tmp_path: Path) -> None:
    replay = Replay(tmp_path, "1\n?x\n2\n", "?y\n3\n")
    for task in ("one", "two"):
        source = replay.source(task, replay_speed="max")
        first = poll(source, source.initial(), rows=2)
        kept = malformed(source, source.initial(), first.end)
        assert kept is not None
        assert (kept.rows, [row.row for row in read_malformed(kept)]) == (2, ["?x", "?y"])
        assert malformed(source, first.end, poll(source, first.end).end) is None
    assert len(replay.preparer.calls) == 1


def test_files_of_malformed_rows_alone_are_one_epoch(tmp_path: Path) -> None:
    source = Replay(tmp_path, "?x\n").source()
    found = poll(source, source.initial())
    assert (found.empty, found.ended) == (False, True)
    kept = malformed(source, source.initial(), found.end)
    assert kept is not None
    assert kept.rows == 1
