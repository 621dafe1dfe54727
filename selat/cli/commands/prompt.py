"""The prompt: statements over several lines until a semicolon, history, completion; errors do not end it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

import selat
from machine.private import NotPrivateError, make_private
from selat.cli.base.app import App
from selat.cli.base.errors import report
from selat.cli.commands.statements import Submission, run_text
from selat.source.statements import split_statements

_KEYWORDS = """ALTER ANALYZE AND AS AT AVG BETWEEN BY CANCEL CASE CAST COMMENT COUNT CREATE DESC DESCRIBE DISTINCT DROP
    ELSE END EXISTS EXPLAIN FOR FROM FUNCTION FUNCTIONS GRANT GRANTS GROUP HAVING IF IN INNER INSERT INTERVAL INTO IS
    JOIN LANGUAGE LEFT LIKE MAX MIN NOT NULL ON OR ORDER OVER PARTITION PAUSE PYTHON QUALIFY QUERIES QUERY REPLACE
    RESUME RETURNS REVOKE ROW_NUMBER SELECT SET SHOW SINK SINKS SITE SITES STREAM STREAMS SUM TABLE TABLES THEN TO
    USING WATERMARK WHEN WHERE WINDOW WITH"""
KEYWORDS = tuple(_KEYWORDS.split())

HELP = r"""Statements end with a semicolon and may go over several lines.
  SHOW STREAMS; SHOW TABLES; SHOW QUERIES; SHOW SITES;   what there is
  DESCRIBE name;                                         columns and bindings of a stream or table
  EXPLAIN SELECT ...;                                    what a query would do, without running it
  SELECT ...;                                            submit and follow; Ctrl-C cancels the query
  INSERT INTO sink SELECT ...;                           the same, with the rows going into a sink (SHOW SINKS)
  EXPLAIN ANALYZE QUERY id;                              what a running query measures
  CANCEL QUERY id;                                       end a query that runs elsewhere
  PAUSE QUERY id; RESUME QUERY id;                       have it stand still, and go on
Keys: Tab completes, Up and Ctrl-R search the history, Ctrl-C drops the line, Ctrl-D ends.
  \?  this help     \q  end"""

_QUIT = frozenset({r"\q", "quit", "exit"})
_HELP = frozenset({r"\?", r"\h", "help"})


def run_prompt(app: App, client: selat.Client) -> None:
    """Read and run statements until the user quits."""
    session = make_session(client)
    app.note(rf"selat {selat.__version__}, master {client.address}; \? for help, \q to end")
    while True:
        try:
            text = session.prompt("selat> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        word = text.rstrip(";").strip().lower()
        if word in _QUIT:
            return
        if word in _HELP:
            click.echo(HELP)
        elif text:
            run_line(app, client, text)


def run_line(app: App, client: selat.Client, text: str) -> None:
    """Run a line; errors are reported, and the prompt continues."""
    try:
        run_text(app, client, text, Submission(follow=True))
    except selat.SelatError as error:
        report(error, app, sql=text)
    except KeyboardInterrupt as interrupt:
        # Ctrl-C ended the statement that ran; a request to end the process passes through.
        if hasattr(interrupt, "number"):
            raise


def make_session(client: selat.Client) -> PromptSession[str]:
    """The line editor."""
    return PromptSession(
        history=_history(),
        multiline=True,
        key_bindings=_bindings(),
        completer=SqlCompleter(client),
        complete_while_typing=False,
        prompt_continuation=lambda width, line, wrapped: "   ...> "[-width:],
        enable_history_search=True,
    )


def is_ready(text: str) -> bool:
    """Whether Enter should run the text: a command, nothing, or statements of which the last ends with a semicolon."""
    word = text.strip().lower()
    return word.startswith("\\") or word in _QUIT | _HELP or split_statements(text).complete


class SqlCompleter(Completer):
    """Keywords, and the names of streams, tables and sinks."""

    def __init__(self, client: selat.Client) -> None:
        self._client = client

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        word = document.get_word_before_cursor(WORD=False)
        if not word:
            return
        for name in self._names():
            if name.lower().startswith(word.lower()):
                yield Completion(name, -len(word))
        for keyword in KEYWORDS:
            if keyword.startswith(word.upper()):
                # Lower-case input is completed in lower case.
                yield Completion(keyword.lower() if word.islower() else keyword, -len(word))

    def _names(self) -> list[str]:
        try:
            relations = (*self._client.streams(), *self._client.tables(), *self._client.sinks())
            return [relation.name for relation in relations]
        except selat.SelatError:
            return []


def history_file() -> Path:
    """The file of the history."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "selat" / "history"


def _history() -> History:
    path = history_file()
    try:
        make_private(path.parent)
        path.touch(mode=0o600)
    except (OSError, NotPrivateError):
        return InMemoryHistory()
    return FileHistory(path)


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_ready(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings
