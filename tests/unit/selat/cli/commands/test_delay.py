"""The plot of how long after their end windows are out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from selat.cli import cli
from selat.cli.base.app import App
from selat.cli.commands import delay as module
from selat.client.adaptation import QueryMoment

NOW = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass
class Query:
    """A query that is looked at several times, and is over at the last of them."""

    looks: list[list[SimpleNamespace]]
    id: str = "q-0001-abcdef"

    def info(self) -> SimpleNamespace:
        return SimpleNamespace(tasks=self.looks.pop(0), over=not self.looks)


@dataclass
class Client:
    found: Query
    moments: list[QueryMoment] = field(default_factory=list)

    def query(self, name: str) -> Query:
        return self.found

    def query_history(self, query: str) -> list[QueryMoment]:
        return self.moments


def task(stage: str, emissions: int, delay_s: float, site: str = "us") -> SimpleNamespace:
    return SimpleNamespace(
        task_id=f"q-0001-abcdef.{stage}.p0", stage_id=stage, site=site, emissions=emissions, emit_delay_s=delay_s
    )


def plotted(monkeypatch: pytest.MonkeyPatch, looks: list[list[SimpleNamespace]], *options: str) -> list[str]:
    moments = [QueryMoment(NOW + timedelta(seconds=n), "running", "all tasks run", None) for n in range(3)]
    client = Client(Query(looks), moments)

    @contextmanager
    def connect(_: App) -> Iterator[Client]:
        yield client

    monkeypatch.setattr(App, "connect", connect)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.0)
    result = CliRunner().invoke(cli, ["query", "delay", "visits", *options])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


LOOKS = [
    [task("m1", 1, 0.4), task("f1", 0, 0.0)],
    [task("m1", 1, 0.4), task("f1", 1, 1.0)],
    [task("m1", 1, 0.4), task("f1", 1, 1.0)],
    [task("m1", 2, 70.0, "eu"), task("f1", 2, 80.0)],
]


def test_each_time_that_windows_come_out_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = plotted(monkeypatch, list(LOOKS), "-o", "table")
    assert lines[0] == "2026-11-01 00:00:00  running: all tasks run"
    assert [line[19:] for line in lines[1:]] == [
        "     0.4 s  ██",
        "     1.0 s  █████",
        f"    80.0 s  {'█' * 60}+",
    ]


def test_the_scale_is_the_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plotted(monkeypatch, [[task("m1", 3, 8.0)]], "-o", "table", "--scale", "2")[1].endswith("  ████")


def test_as_json_it_is_a_value_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = plotted(monkeypatch, list(LOOKS), "-o", "json")
    assert ['"delay_s": 80.0' in line or '"delay_s":80.0' in line for line in lines] == [False, False, True]
    assert len(lines) == 3
