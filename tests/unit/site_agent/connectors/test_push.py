from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from contract.times import to_us
from site_agent.base.errors import ConnectorError
from site_agent.channels.codec import encode
from site_agent.connectors.push import PushConnector
from site_agent.connectors.sources import ReadLimit, Source
from site_agent.engine import ArrowScan, MalformedRow
from site_agent.ingest import Push
from site_agent.ingest.log import PushLog
from site_agent.ingest.options import LogLimits
from tests.unit.site_agent.connectors.contexts import CREATED, source_context
from tests.unit.site_agent.fakes import TIMESTAMP, VirtualClock

SCHEMA = pa.schema([("ts", TIMESTAMP), ("v", pa.int64())])


@pytest.fixture
def log(tmp_path: Path) -> PushLog:
    return PushLog(tmp_path / "log", SCHEMA, limits=LogLimits(segment_bytes=600), clock=VirtualClock())


def append(log: PushLog, sequence: int, *values: int) -> None:
    table = pa.table({"ts": pa.array(values, TIMESTAMP), "v": values}, schema=SCHEMA)
    log.append([Push("p", sequence, encode(table))])


def open_source(log: PushLog, directory: Path, **options: str) -> Source:
    def find(relation: str, created_at: datetime) -> PushLog:
        assert (relation, created_at) == ("clicks", CREATED)
        return log

    context = source_context(directory, {"connector": "push", **options}, read_columns=("v",))
    return PushConnector(find).open_source(context)


def read_all(source: Source, *, limit: ReadLimit | None = None) -> tuple[list[list[int]], bool]:
    """Rows by epoch, and whether the source ended."""
    epochs: list[list[int]] = []
    offset = source.initial()
    while True:
        poll = source.poll(offset, now=CREATED, limit=limit or ReadLimit())
        if poll.empty:
            return epochs, poll.ended
        scan = source.scan(offset, poll.end)
        assert isinstance(scan, ArrowScan)
        assert scan.table.column_names == ["ts", "v"]
        epochs.append(scan.table.column("v").to_pylist())
        offset = poll.end


def test_rows_are_read_in_the_order_in_which_they_came(log: PushLog, tmp_path: Path) -> None:
    for sequence in range(1, 6):
        append(log, sequence, sequence * 10, sequence * 10 + 1)
    source = open_source(log, tmp_path / "q1")

    epochs, ended = read_all(source)
    assert sum(epochs, []) == [10, 11, 20, 21, 30, 31, 40, 41, 50, 51]  # noqa: RUF017
    assert not ended
    assert [len(e) for e in read_all(source, limit=ReadLimit(rows=3))[0]] == [2] * 5

    log.finish()
    assert read_all(source)[1]


def test_lag_and_end_are_exact(log: PushLog, tmp_path: Path) -> None:
    append(log, 1, 1, 2)
    append(log, 2, 3)
    log.finish()
    source = open_source(log, tmp_path / "q1")
    poll = source.poll(source.initial(), now=CREATED, limit=ReadLimit(rows=2))
    assert (poll.lag_rows, poll.ended) == (1, False)
    poll = source.poll(poll.end, now=CREATED, limit=ReadLimit())
    assert (poll.lag_rows, poll.ended, poll.empty) == (0, True, False)
    assert source.poll(poll.end, now=CREATED, limit=ReadLimit()).ended


def test_a_query_begins_at_the_oldest_or_the_newest_and_stays_there(log: PushLog, tmp_path: Path) -> None:
    append(log, 1, 1)
    assert open_source(log, tmp_path / "q1").initial() == {"record": 0}
    assert open_source(log, tmp_path / "q2", **{"from": "latest"}).initial() == {"record": 1}
    append(log, 2, 2)
    assert open_source(log, tmp_path / "q2", **{"from": "latest"}).initial() == {"record": 1}
    (tmp_path / "q2" / "start.json").write_text("{")
    with pytest.raises(ConnectorError, match="damaged"):
        open_source(log, tmp_path / "q2").initial()


def test_wrong_options_and_tables_are_refused(log: PushLog, tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="retention_bytes"):
        open_source(log, tmp_path / "q1", retention_bytes="much")
    with pytest.raises(ConnectorError, match="no option 'retentoin'"):
        open_source(log, tmp_path / "q1", retentoin="1 hour")
    with pytest.raises(ConnectorError, match="clicks is a table"):
        PushConnector(lambda relation, created_at: log).open_table(source_context(tmp_path / "t", {}))


class TestByArrival:
    """The stream has the columns ts and v, and neither is its event time."""

    def source(self, log: PushLog, directory: Path, *read: str) -> Source:
        log.order_arrivals()
        context = source_context(directory, {"connector": "push"}, read_columns=read, event_time="arrived")
        return PushConnector(lambda relation, created_at: log).open_source(context)

    def test_rows_have_the_time_at_which_their_batch_was_stored(self, tmp_path: Path) -> None:
        clock = VirtualClock()
        log = PushLog(tmp_path / "log", SCHEMA, limits=LogLimits(), clock=clock)
        source = self.source(log, tmp_path / "q", "v", "arrived")
        # An event time far ahead of the clock is a value as any other.
        append(log, 1, 10**17, 11)
        clock.elapsed_s = 5.0
        append(log, 2, 20)
        start = source.initial()
        poll = source.poll(start, now=CREATED, limit=ReadLimit())
        scan = source.scan(start, poll.end)
        assert isinstance(scan, ArrowScan)
        began = clock.now() - timedelta(seconds=5)
        assert scan.table.to_pylist() == [
            {"v": 10**17, "arrived": began},
            {"v": 11, "arrived": began},
            {"v": 20, "arrived": clock.now()},
        ]
        assert scan.table.schema.field("arrived").type == TIMESTAMP
        assert poll.event_time_floor_us == to_us(clock.now())

    def test_only_the_time_may_be_read(self, log: PushLog, tmp_path: Path) -> None:
        source = self.source(log, tmp_path / "q", "arrived")
        append(log, 1, 1, 2, 3)
        scan = source.scan({"record": 0}, {"record": 1})
        assert isinstance(scan, ArrowScan)
        assert (scan.table.column_names, scan.table.num_rows) == (["arrived"], 3)

    def test_the_floor_is_the_clock_until_the_stream_ends(self, log: PushLog, tmp_path: Path) -> None:
        source = self.source(log, tmp_path / "q", "arrived")
        append(log, 1, 1)
        append(log, 2, 2)
        behind = source.poll({"record": 0}, now=CREATED, limit=ReadLimit(rows=1))
        assert (behind.end, behind.event_time_floor_us) == ({"record": 1}, None)
        silent = source.poll({"record": 2}, now=CREATED, limit=ReadLimit())
        assert (silent.empty, silent.event_time_floor_us is None) == (True, False)
        log.finish()
        assert source.poll({"record": 2}, now=CREATED, limit=ReadLimit()).ended


class TestRowsAheadOfTheClock:
    NOW_US = to_us(VirtualClock().now())

    def stored(self, directory: Path, *times: int | None, now_us: int = NOW_US) -> PushLog:
        clock = VirtualClock()
        clock.elapsed_s = (now_us - self.NOW_US) / 1e6
        found = PushLog(directory, SCHEMA, limits=LogLimits(), clock=clock)
        table = pa.table({"ts": pa.array(times, TIMESTAMP), "v": range(len(times))}, schema=SCHEMA)
        found.append([Push("p", found.last_sequence("p") + 1, encode(table))])
        return found

    def read(self, source: Source) -> tuple[list[int], list[MalformedRow]]:
        start = source.initial()
        scan = source.scan(start, source.poll(start, now=CREATED, limit=ReadLimit()).end)
        assert isinstance(scan, ArrowScan)
        aside = scan.set_aside
        malformed = list(aside.malformed()) if aside else []
        assert len(malformed) == (aside.rows if aside else 0)
        return scan.table.column("v").to_pylist(), malformed

    def test_are_set_aside_with_the_reason(self, tmp_path: Path) -> None:
        limit = self.NOW_US + 600_000_000
        log = self.stored(tmp_path / "log", 0, limit, limit + 1, None, 2**62)
        rows, (near, far) = self.read(open_source(log, tmp_path / "q"))
        assert rows == [0, 1, 3]
        assert near == MalformedRow(
            "",
            "ts: 2026-01-01T00:10:00.000001+00:00 is more than 0:10:00 ahead of the site's clock, "
            "which said 2026-01-01T00:00:00+00:00 when the row came (max_ahead)",
            '{"ts": "2026-01-01 00:10:00.000001+00:00", "v": 2}',
        )
        assert far.reason.startswith("ts: 4611686018427387904 microseconds after 1970 is more than")
        assert far.row == '{"ts": 4611686018427387904, "v": 4}'

    @pytest.mark.parametrize(("option", "kept"), [("none", 3), ("1 day", 2), ("0 s", 1), ("999999999 days", 3)])
    def test_are_as_far_as_the_option_says(self, tmp_path: Path, option: str, kept: int) -> None:
        log = self.stored(tmp_path / "log", self.NOW_US, self.NOW_US + 3_600_000_000, self.NOW_US + 2 * 86_400_000_000)
        assert len(self.read(open_source(log, tmp_path / "q", max_ahead=option))[0]) == kept

    def test_are_judged_by_the_clock_when_they_came_however_late_they_are_read(self, tmp_path: Path) -> None:
        hour = 3_600_000_000
        self.stored(tmp_path / "log", self.NOW_US + hour).close()
        log = self.stored(tmp_path / "log", self.NOW_US + hour, now_us=self.NOW_US + hour)
        first = self.read(open_source(log, tmp_path / "q"))
        assert (first[0], len(first[1])) == ([0], 1)
        again = PushLog(tmp_path / "log", SCHEMA, limits=LogLimits(), clock=VirtualClock())
        assert self.read(open_source(again, tmp_path / "q")) == first

    def test_change_with_the_option_while_a_query_runs(self, tmp_path: Path) -> None:
        log = self.stored(tmp_path / "log", self.NOW_US + 3_600_000_000)
        source = open_source(log, tmp_path / "q")
        assert self.read(source)[0] == []
        source.reconfigure({"connector": "push", "max_ahead": "2 hours"})
        assert self.read(source)[0] == [0]

    def test_a_wrong_option_is_named(self, log: PushLog, tmp_path: Path) -> None:
        with pytest.raises(ConnectorError) as caught:
            open_source(log, tmp_path / "q", max_ahead="soon")
        assert caught.value.message == "option 'max_ahead' is 'soon'"
        assert caught.value.hint == "'max_ahead' takes a duration as in '10 minutes', or none"
