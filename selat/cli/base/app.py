"""What a command works with: the settings, the terminal, a client."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TextIO, TypeVar

import click
from rich.console import Console

import selat
from machine.terminal import printable_lines
from selat.cli.base.options import Format, Settings, settings
from selat.transport.token import find_token

P = ParamSpec("P")
R = TypeVar("R")

_UNLIMITED = 1_000_000


class App:
    """One run of the command."""

    def __init__(self, options: Settings) -> None:
        self.settings = options

    @property
    def format(self) -> Format:
        """The output format: what was asked for, else a table on a terminal and JSON lines elsewhere."""
        if self.settings.output is not None:
            return self.settings.output
        return Format.TABLE if sys.stdout.isatty() else Format.JSON

    @property
    def live(self) -> bool:
        """Whether stderr is a terminal."""
        return sys.stderr.isatty()

    def connect(self) -> selat.Client:
        """A client of the master that the options name.

        Raises selat.Unavailable when none answers, selat.InvalidArgument when token or certificate cannot be used.
        """
        options = self.settings
        token = find_token(None, options.token_file) or None
        return selat.connect(
            options.master,
            timeout=options.timeout,
            tls_dir=options.tls_dir,
            token=token,
            insecure=options.insecure,
        )

    def console(self) -> Console:
        """Standard output, to print tables on; into a pipe or a file nothing is coloured, cut or folded."""
        terminal = sys.stdout.isatty()
        return Console(
            file=sys.stdout,
            no_color=not self.colored(sys.stdout),
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=False,
            width=None if terminal else _UNLIMITED,
        )

    def colored(self, stream: TextIO) -> bool:
        """Whether colours may be written there."""
        return self.settings.color and not os.environ.get("NO_COLOR") and stream.isatty()

    def note(self, text: str) -> None:
        """A line for people, on stderr."""
        click.echo(printable_lines(text), err=True)

    def now(self) -> datetime:
        """The time now, for durations of queries that still run."""
        return datetime.now(UTC)


def pass_app(command: Callable[Concatenate[App, P], R]) -> Callable[P, R]:
    """Gives a command an App made of the current options as its first argument."""

    @wraps(command)
    def with_app(*args: P.args, **options: P.kwargs) -> R:
        return command(App(settings(click.get_current_context())), *args, **options)

    return with_app


SQL_TEXT = "selat.cli.sql_text"
"""Key in `click.Context.meta` of the SQL that is being run, so that an error can show the line it is about."""


def remember_sql(text: str) -> None:
    """Lets the report of an error quote this text."""
    click.get_current_context().meta[SQL_TEXT] = text


def remembered_sql(ctx: click.Context) -> str:
    """The SQL that is being run, else nothing."""
    text: Any = ctx.meta.get(SQL_TEXT, "")
    return str(text)
