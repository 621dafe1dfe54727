"""Errors as people and programs read them, and the exit code of each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import click
from rich.cells import cell_len

import selat
from machine.terminal import printable_lines
from selat.cli.base import app as cli_app
from selat.cli.base import jsontext
from selat.cli.base.options import Format, settings


class ExitCode(IntEnum):
    """The exit codes of the command, as docs/cli.md lists them."""

    DONE = 0
    QUERY_FAILED = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    TIMEOUT = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141


_CODES: tuple[tuple[type[selat.SelatError], ExitCode], ...] = (
    (selat.InvalidArgument, ExitCode.USAGE),
    (selat.StatementError, ExitCode.REFUSED),
    (selat.NotFound, ExitCode.NOT_FOUND),
    (selat.Unavailable, ExitCode.UNREACHABLE),
    (selat.TimedOut, ExitCode.TIMEOUT),
)


def exit_code(error: selat.SelatError) -> ExitCode:
    """The exit code that stands for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.QUERY_FAILED)


@contextmanager
def reported(ctx: click.Context) -> Iterator[None]:
    """Ends the process with a message and an exit code when the block goes wrong; nobody sees a traceback."""
    try:
        yield
        sys.stdout.flush()
    except selat.SelatError as error:
        report(error, cli_app.App(settings(ctx)), sql=cli_app.remembered_sql(ctx))
        ctx.exit(exit_code(error))
    except UnicodeError as error:
        report(_no_text(error), cli_app.App(settings(ctx)))
        ctx.exit(ExitCode.USAGE)
    except KeyboardInterrupt as interrupt:
        ctx.exit(128 + getattr(interrupt, "number", 2))
    except BrokenPipeError:
        _silence_stdout()
        ctx.exit(ExitCode.BROKEN_PIPE)


def _no_text(error: UnicodeError) -> selat.InvalidArgument:
    """Bytes of a file, of standard input or of an argument that stand for no characters."""
    place = f" at position {error.start}" if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else ""
    return selat.InvalidArgument(
        f"what was given is no UTF-8 text: there are other bytes{place}",
        detail=selat.errors.Detail(hint="give SQL and names as UTF-8 text"),
    )


def report(error: selat.SelatError, app: cli_app.App, *, sql: str = "") -> None:
    """Writes an error to stderr: one JSON object with `-o json`, else text that quotes the line it is about."""
    if app.settings.output is Format.JSON:
        click.echo(jsontext.dumps({"error": as_object(error)}), err=True)
    else:
        click.echo(render(error, sql, colored=app.colored(sys.stderr)), err=True, color=True)


def as_object(error: selat.SelatError) -> dict[str, object]:
    """An error for programs; line and column are null when it has no place in the SQL."""
    return {
        "code": error.code,
        "message": error.message,
        "line": error.line or None,
        "column": error.column or None,
        "found": error.found or None,
        "hint": error.hint or None,
        "ids": dict(error.ids),
    }


def render(error: selat.SelatError, sql: str = "", *, colored: bool = False) -> str:
    """An error for people: its message, its place in the SQL, and its hint."""

    def style(text: str, **how: object) -> str:
        return click.style(text, **how) if colored else text  # type: ignore[arg-type]

    lines = [f"{style(f'error[{error.code}]', fg='red', bold=True)}: {printable_lines(error.message)}"]
    lines += _quoted(error, sql)
    if error.hint:
        lines.append(f"{style('hint', fg='cyan', bold=True)}: {printable_lines(error.hint)}")
    return "\n".join(lines)


def _quoted(error: selat.SelatError, sql: str) -> list[str]:
    """The line of the SQL that the error is about, with a caret under the place."""
    source = sql.splitlines()
    if not 0 < error.line <= len(source):
        return []
    text = source[error.line - 1]
    gutter = f"{error.line:>4} | "
    lines = [gutter + printable_lines(text.rstrip())]
    if error.column:
        before = printable_lines(text[: error.column - 1])
        # A tab stays a tab, so that the caret lands where the terminal puts the text.
        pad = "".join("\t" if char == "\t" else " " * cell_len(char) for char in before)
        after = text[error.column - 1 :]
        found = error.found if after.startswith(error.found) else ""
        width = cell_len(printable_lines(found))
        lines.append(" " * (len(gutter) - 2) + "| " + pad + "^" * max(1, width))
    return lines


def _silence_stdout() -> None:
    """Discards buffered output after the reader of stdout has gone, so that nothing raises at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
