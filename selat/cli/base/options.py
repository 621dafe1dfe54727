"""The options that every command takes, before or after its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Format(Enum):
    """How answers are written to standard output."""

    TABLE = "table"
    JSON = "json"
    """One object per line."""
    CSV = "csv"
    ARROW = "arrow"
    """An Arrow IPC stream."""


class EpochType(click.ParamType[Any]):
    """An epoch's number, or `first`."""

    name = "EPOCH|first"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | Literal["first"]:
        """See `click.ParamType.convert`."""
        if value == "first":
            return "first"
        try:
            number = int(value)
        except ValueError:
            number = -1
        if number < 0:
            self.fail(f"{value!r} is neither an epoch's number, from 0 on, nor first", param, ctx)
        return number


EPOCH = EpochType()


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of the common options."""

    master: str | None = None
    output: Format | None = None
    """None: a table on a terminal, JSON lines into anything else."""
    color: bool = True
    timeout: timedelta = timedelta(seconds=60)
    tls_dir: Path | None = None
    """None: the directory in SELAT_TLS_DIR, if it is set."""
    token_file: Path | None = None
    """None: the file in SELAT_TOKEN_FILE, if it is set."""
    insecure: bool = False
    """True: a token may go to another machine although the connection is not encrypted."""


def settings(ctx: click.Context) -> Settings:
    """The options before and after the command's name, merged; the later one wins."""
    found = ctx.find_root().obj
    return found if isinstance(found, Settings) else Settings()


def settings_options(command: F) -> F:
    """Adds the common options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _remember(change: Callable[[Any], dict[str, Any]]) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            ctx.find_root().obj = replace(settings(ctx), **change(value))

    return callback


_OPTIONS = (
    click.option(
        "--master",
        metavar="HOST:PORT",
        expose_value=False,
        callback=_remember(lambda value: {"master": value}),
        help="Address of the master.  [default: SELAT_MASTER, else 127.0.0.1:7410]",
    ),
    click.option(
        "--tls-dir",
        metavar="DIR",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_remember(lambda value: {"tls_dir": value}),
        help="Your certificate, made by `selat cert issue`.  [default: SELAT_TLS_DIR, else no TLS]",
    ),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        expose_value=False,
        callback=_remember(lambda value: {"token_file": value}),
        help="Has the token for a master that checks who calls.  [default: SELAT_TOKEN_FILE]",
    ),
    click.option(
        "--insecure",
        is_flag=True,
        default=None,
        expose_value=False,
        callback=_remember(lambda value: {"insecure": value}),
        help="Send the token to another machine, although the connection is not encrypted.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice([f.value for f in Format]),
        expose_value=False,
        callback=_remember(lambda value: {"output": Format(value)}),
        help="Format of answers.  [default: table on a terminal, else json]",
    ),
    click.option(
        "--no-color",
        is_flag=True,
        default=None,
        expose_value=False,
        callback=_remember(lambda value: {"color": not value}),
        help="No colours; NO_COLOR in the environment says the same.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        expose_value=False,
        callback=_remember(lambda value: {"timeout": timedelta(seconds=value)}),
        help="How long one call to the master may take.  [default: 60]",
    ),
)
