from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from site_agent.channels.codec import encode
from site_agent.connectors import ReadLimit, Source
from site_agent.connectors.push import PushConnector
from site_agent.engine import ArrowScan
from site_agent.errors import ConnectorError
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
