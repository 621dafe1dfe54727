"""The example of a sink: a commit that is written again is there once, and which errors are tried again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from examples.connector_sqlite.selat_connector_sqlite import connector
from site_agent.base.errors import ConnectorError
from site_agent.connectors.sinks import EpochRange, SinkCommit, SinkError, SinkWriter


def writer(path: Path) -> SinkWriter:
    return connector().open({"connector": "sqlite", "path": str(path), "table": "seen"}, "q-1")


def put(path: Path, number: int, rows: pa.Table) -> None:
    """By a writer of its own, as after a crash."""
    commit, opened = SinkCommit("q-1", number, {"c": EpochRange(number, number + 1)}), writer(path)
    opened.prepare()
    opened.write(commit, opened.encode(commit, rows))
    opened.close()


def seen(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT * FROM seen ORDER BY 1").fetchall()


def test_a_commit_that_is_written_again_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    for number in (1, 2, 2, 1):
        put(path, number, pa.table({"v": [number], 'a "name"': ["x"], "nested": [[1]]}))
    assert seen(path) == [(1, "x", "[1]"), (2, "x", "[1]")]


def test_a_commit_that_failed_left_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    put(path, 1, pa.table({"v": [1]}))
    with pytest.raises(SinkError, match="has no column named w"):
        put(path, 2, pa.table({"w": [2]}))
    put(path, 2, pa.table({"v": [2]}))
    assert seen(path) == [(1,), (2,)]


def test_what_another_attempt_may_not_meet_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="unable to open"):
        put(tmp_path / "nowhere" / "out.db", 1, pa.table({"v": [1]}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/x"}, "'table' is missing"),
        ({"path": "/x", "table": "a b"}, "'table' is 'a b'"),
        ({"path": "/x", "table": "t", "roll_interval": "soon"}, "'roll_interval' is 'soon'"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConnectorError, match=message):
        connector().policy({"connector": "sqlite", **options})
