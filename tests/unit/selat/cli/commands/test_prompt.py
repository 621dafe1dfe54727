"""When Enter runs what was typed, what Tab offers, and a whole session through a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import selat
from selat.cli.base.app import App
from selat.cli.base.options import Format, Settings
from selat.cli.commands import prompt
from selat.errors import Detail


class FakeClient:
    """Confirms every statement, refuses those that say `nope`, is interrupted by those that say `wait`."""

    address = "here:1"

    def __init__(self) -> None:
        self.scripts: list[str] = []

    def script(self, text: str, *, name: str = "") -> Iterator[selat.Outcome]:
        self.scripts.append(text)
        if "nope" in text:
            raise selat.StatementError("no column nope", detail=Detail(line=1, column=8))
        if "wait" in text:
            raise KeyboardInterrupt
        yield selat.Done("ok")

    def streams(self) -> list[selat.Relation]:
        return [selat.Relation("clicks", selat.RelationKind.STREAM, (), ())]

    def tables(self) -> list[selat.Relation]:
        raise selat.Unavailable("away")


def as_client(fake: FakeClient) -> selat.Client:
    return cast(selat.Client, fake)


@pytest.mark.parametrize("text", ["SELECT 1;", "  ", r"\q", r"\?", "exit", "HELP", "-- note", "a; b;"])
def test_enter_runs(text: str) -> None:
    assert prompt.is_ready(text)


@pytest.mark.parametrize("text", ["SELECT 1", "SELECT ';", "SELECT /* ;", "a; b", "exit now"])
def test_enter_goes_on(text: str) -> None:
    assert not prompt.is_ready(text)


def completions(text: str) -> list[str]:
    completer = prompt.SqlCompleter(as_client(FakeClient()))
    return [c.text for c in completer.get_completions(Document(text), CompleteEvent())]


def test_keywords_keep_the_case_that_was_typed() -> None:
    assert completions("SEL") == ["SELECT"]
    assert completions("select 1 fro") == ["from"]
    assert completions("") == []


def test_a_master_that_is_away_does_not_end_the_completion() -> None:
    assert completions("SELECT 1 FROM WHER") == ["WHERE"]


class Everything(FakeClient):
    def tables(self) -> list[selat.Relation]:
        return []

    def sinks(self) -> list[selat.Relation]:
        return []


def test_names_come_before_keywords() -> None:
    completer = prompt.SqlCompleter(as_client(Everything()))
    assert next(c.text for c in completer.get_completions(Document("FROM c"), CompleteEvent())) == "clicks"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def run(typed: str, client: FakeClient) -> None:
    with create_pipe_input() as source, create_app_session(input=source, output=DummyOutput()):
        source.send_text(typed)
        prompt.run_prompt(App(Settings(output=Format.TABLE, color=False)), as_client(client))


def test_a_session(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = FakeClient()
    run("SHOW\rSTREAMS;\r\\?\rSELECT nope;\rwait;\rDROP STREAM a;\r\\q\rnever;\r", client)
    assert client.scripts == ["SHOW\nSTREAMS;", "SELECT nope;", "wait;", "DROP STREAM a;"]
    out, err = capsys.readouterr()
    assert out.count("ok\n") == 2
    assert prompt.HELP in out
    assert "error[STATEMENT_REFUSED]: no column nope\n   1 | SELECT nope;\n     |        ^" in err


def test_the_history_is_kept_for_its_owner_alone(home: Path) -> None:
    run("SHOW\rSTREAMS;\r\x04", FakeClient())
    history = home / "selat" / "history"
    assert "+SHOW\n+STREAMS;\n" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_ctrl_c_drops_the_line_and_ctrl_d_ends(home: Path) -> None:
    client = FakeClient()
    run("SELECT half\x03SHOW STREAMS;\r\x04", client)
    assert client.scripts == ["SHOW STREAMS;"]


def test_a_home_that_cannot_be_written_costs_only_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    client = FakeClient()
    run("SHOW STREAMS;\r\\q\r", client)
    assert client.scripts == ["SHOW STREAMS;"]
