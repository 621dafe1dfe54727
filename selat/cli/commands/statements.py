"""Runs the statements of a text and prints their outcomes, for `selat sql` and its prompt."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import click

import selat
from machine.terminal import printable_lines
from selat.cli.base import jsontext
from selat.cli.base.app import App
from selat.cli.base.options import Format
from selat.cli.commands.follow import follow_submitted
from selat.cli.output.rows import row_writer, text_rows


@dataclass(frozen=True, slots=True)
class Submission:
    """How queries of a text (SELECT and INSERT INTO) are submitted."""

    follow: bool
    """Whether the last statement's results are read; all other queries run on."""
    name: str = ""
    bare_ids: bool = False
    """Whether only a query's id is printed, in every format but JSON."""


def run_text(app: App, client: selat.Client, text: str, submission: Submission) -> None:
    """Run the statements of a text and print their outcomes."""
    for outcome, last in _with_last(client.script(text, name=submission.name)):
        if isinstance(outcome, selat.Query) and last and submission.follow:
            _say_submitted(app, outcome)
            if outcome.last.sink:
                _print_id(app, outcome, bare=False)
            follow_submitted(app, outcome)
        else:
            print_outcome(app, outcome, bare_ids=submission.bare_ids)


def print_outcome(app: App, outcome: selat.Outcome, *, bare_ids: bool = False) -> None:
    """Print the outcome of a statement in the app's format; for a query, its id."""
    match outcome:
        case selat.Query():
            _print_query(app, outcome, bare=bare_ids)
        case selat.Rows():
            _print_rows(app, outcome.columns, outcome.rows)
        case selat.Explanation():
            print_explanation(app, outcome)
        case selat.Done():
            _print_line(app, {"done": outcome.message}, outcome.message)


def print_explanation(app: App, explanation: selat.Explanation) -> None:
    """Print a plan: text for people, one JSON object, or one row per line of the text."""
    if app.format is Format.TABLE:
        click.echo(printable_lines(explanation.text))
    elif app.format is Format.JSON:
        # The master may write the JSON over several lines; here it is one line among others.
        click.echo(jsontext.dumps(json.loads(explanation.json)))
    else:
        _print_rows(app, ["plan"], [[line] for line in explanation.text.splitlines()])


def _with_last(outcomes: Iterable[selat.Outcome]) -> Iterator[tuple[selat.Outcome, bool]]:
    """Each outcome, and whether it is the last. The one before an error is not, and is returned nevertheless."""
    source = iter(outcomes)
    try:
        held = next(source)
    except StopIteration:
        return
    while True:
        error: selat.SelatError | None = None
        following: selat.Outcome | None = None
        try:
            with suppress(StopIteration):
                following = next(source)
        except selat.SelatError as raised:
            error = raised
        yield held, error is None and following is None
        if error is not None:
            raise error
        if following is None:
            return
        held = following


def _say_submitted(app: App, query: selat.Query) -> None:
    _say_shared(app, query)
    if app.live:
        app.note(f"query {query.id} submitted; Ctrl-C cancels it")


def _say_shared(app: App, query: selat.Query) -> None:
    """Print with which queries it shares tasks, and where it begins."""
    info = query.last
    owners = sorted({task.query_id for task in info.tasks} - {info.id})
    if not owners or info.sharing is None:
        return
    middle = ", from the next whole window on" if info.sharing.start == "next-window" else ""
    app.note(f"query {info.id} shares tasks with {', '.join(owners)}{middle}; selat query show says more")


def _print_query(app: App, query: selat.Query, *, bare: bool) -> None:
    _say_shared(app, query)
    _print_id(app, query, bare=bare)


def _print_id(app: App, query: selat.Query, *, bare: bool) -> None:
    if bare and app.settings.output is not Format.JSON:
        click.echo(query.id)
    else:
        _print_line(app, {"query": query.id, "name": query.last.name or None}, query.id)


def _print_line(app: App, as_json: dict[str, object], text: str) -> None:
    """Print a line that is not a row: formats that contain only rows send it elsewhere."""
    if app.format is Format.JSON:
        click.echo(jsontext.dumps(as_json))
    else:
        click.echo(printable_lines(text), err=app.format is not Format.TABLE)


def _print_rows(app: App, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    batch = text_rows(columns, rows)
    writer = row_writer(app.format, batch.schema, colored=app.colored(sys.stdout))
    writer.write(batch)
    writer.close()
