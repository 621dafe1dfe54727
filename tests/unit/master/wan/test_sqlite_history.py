from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from master.wan.history import LinkPoint
from master.wan.sqlite_history import HISTORY_FILE, SqliteLinkHistory
from planner.wan.samples import Method

START = datetime(2026, 1, 1, tzinfo=UTC)
POINTS = (
    LinkPoint(("us", "eu"), START, 1e6, 2e5, timedelta(milliseconds=80), 0.01, Method.IPERF3),
    LinkPoint(("us", "eu"), START + timedelta(seconds=10), 1e6, 3e5),
    LinkPoint(("eu", "us"), START, 5e5, 0.0),
)


def test_points_come_back_in_order(tmp_path: Path) -> None:
    history = SqliteLinkHistory.open(tmp_path)
    history.put_link_points(reversed(POINTS))
    history.close()
    again = SqliteLinkHistory.open(tmp_path)
    assert again.link_points(("us", "eu"), START) == POINTS[:2]
    assert again.link_points(("us", "eu"), START + timedelta(seconds=1)) == POINTS[1:2]
    again.drop_link_points(START + timedelta(seconds=1))
    assert again.link_points(("us", "eu"), START) == POINTS[1:2]
    again.close()


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / HISTORY_FILE).write_bytes(b"not a database, but long enough to be taken for one" * 40)
    history = SqliteLinkHistory.open(tmp_path)
    history.put_link_points(POINTS)
    assert len(history.link_points(("us", "eu"), START)) == 2
    assert (tmp_path / HISTORY_FILE).with_suffix(".damaged").exists()
    history.close()
