from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from site_agent.engine import MalformedRow
from site_agent.tasks.dead_letters import DeadLetters
from tests.unit.site_agent.fakes import VirtualClock

ROWS = (MalformedRow("/data/a.csv", "k: 'one' is no INT", "1,one"), MalformedRow("/data/a.csv", "no", "\u00fc\ud800"))


@pytest.fixture
def letters(tmp_path: Path) -> DeadLetters:
    return DeadLetters(tmp_path / "dead-letters" / "q.s1.us", relation="clicks", site="us", clock=VirtualClock())


def test_a_line_for_each_row(letters: DeadLetters, tmp_path: Path) -> None:
    letters.sink(7)(iter(ROWS))
    (path,) = tmp_path.rglob("*.jsonl")
    assert path == tmp_path / "dead-letters" / "q.s1.us" / "000000000007.jsonl"
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first == {
        "time": "2026-01-01T00:00:00+00:00",
        "relation": "clicks",
        "site": "us",
        "file": "/data/a.csv",
        "reason": "k: 'one' is no INT",
        "row": "1,one",
    }
    assert second["row"] == "\u00fc?"


def test_an_epoch_that_runs_again_has_its_rows_once(letters: DeadLetters, tmp_path: Path) -> None:
    letters.sink(7)(iter(ROWS))
    letters.sink(7)(iter(ROWS[:1]))
    (path,) = tmp_path.rglob("*.jsonl")
    assert len(path.read_text().splitlines()) == 1
    letters.sink(7)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_without_rows_there_is_no_directory(letters: DeadLetters, tmp_path: Path) -> None:
    letters.sink(0)
    assert not list(tmp_path.iterdir())


def test_rows_that_break_off_leave_nothing(letters: DeadLetters, tmp_path: Path) -> None:
    def broken() -> Iterator[MalformedRow]:
        yield ROWS[0]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        letters.sink(0)(broken())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
