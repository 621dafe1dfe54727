"""docs/python.md and docs/cli.md do what they say."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from selat.cli import _COMMANDS, cli
from selat.cli.base.app import App
from selat.cli.base.errors import ExitCode
from tests.integration.fake_master import (
    FakeMaster,
    clicks,
    clicks_relation,
    daily_relation,
    front_relation,
    pages_relation,
    zone_function,
)

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    fake = FakeMaster()
    relations = (clicks_relation(), pages_relation(), daily_relation(), front_relation())
    fake.relations = {relation.name: relation for relation in relations}
    fake.start()
    monkeypatch.setenv("SELAT_MASTER", fake.address)
    monkeypatch.setattr(App, "now", lambda app: datetime(2013, 1, 1, 0, 3, 20, tzinfo=UTC))
    yield fake
    fake.stop()


def test_the_examples_of_the_python_page(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "python.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    out = capsys.readouterr().out.splitlines()
    assert out[:4] == ["clicks", "q-0001-abcdef QueryState.FINISHED", "Rows", "Explanation"]
    assert out[4] == "UNKNOWN_COLUMN 1 8 columns of clicks: user_id, page, ts"
    assert out[5] == "q-0001-abcdef.s1.p1 0 2 2013-01-01 00:00:00+00:00"
    assert out[7:10] == ["1 /p1", "2 /p2", "3 /p3"]
    assert out[10] == "[1]"
    assert out[-5:] == [
        "['page', 'topic']",
        "front SELECT user_id, ts FROM clicks WHERE page = '/'",
        "clicks ts 0:00:05 ['us', 'eu']",
        "us SiteState.ALIVE 2 [1500000]",
        "eu SiteState.EXPECTED 0 []",
    ]


def run(command: str) -> str:
    """What a terminal would show, without colours."""
    program, *arguments = shlex.split(command)
    assert program == "selat"
    result = CliRunner().invoke(cli, ["-o", "table", *arguments], prog_name="selat")
    return "\n".join(line.rstrip() for line in result.output.splitlines())


def test_the_answers_on_the_page_of_the_command(master: FakeMaster) -> None:
    visits = master.add_query("SELECT user_id, page, ts FROM clicks", name="visits")
    master.publish(visits, clicks(1, 2, 3))
    master.functions = {"zone": zone_function()}
    text = (DOCS / "cli.md").read_text()
    examples = re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", text, re.MULTILINE)
    assert len(examples) > 15
    assert [(command, run(command)) for command, _ in examples] == [(c, shown.rstrip()) for c, shown in examples]


def test_the_page_of_the_command_names_every_command_and_exit_code() -> None:
    text = (DOCS / "cli.md").read_text()
    assert [name for name in _COMMANDS if f"selat {name}" not in text] == []
    assert [code for code in ExitCode if f"\n| {code.value} | " not in text] == []
