"""Lists and single objects: humanised tables for people, raw values for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from machine.terminal import printable, printable_lines
from selat.cli.base import jsontext
from selat.cli.base.app import App
from selat.cli.base.options import Format
from selat.cli.output import human
from selat.cli.output.rows import row_writer, text_rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """One column of a list."""

    name: str
    """The name in CSV and Arrow: a word with underscores and its unit."""
    raw: Callable[[T], Any]
    """Returns the value: a scalar or an instant."""
    shown: Callable[[T], str] | None = None
    """Writes the value for people; None: the raw value as text."""
    right: bool = False

    @property
    def title(self) -> str:
        """The heading in tables for people: without the unit."""
        return self.name.removesuffix("_bytes").removesuffix("_s").replace("_", " ").upper()

    def text(self, item: T) -> str:
        return self.shown(item) if self.shown else human.cell(self.raw(item))


def show_list(app: App, fields: Sequence[Field[T]], items: Sequence[T]) -> None:
    """Prints a list in the app's format; as JSON each item is whole."""
    if app.format is Format.TABLE:
        app.console().print(table(fields, items))
    elif app.format is Format.JSON:
        _json_lines(items)
    else:
        batch = text_rows([f.name for f in fields], [[f.raw(item) for f in fields] for item in items])
        writer = row_writer(app.format, batch.schema)
        writer.write(batch)
        writer.close()


def show_one(app: App, fields: Sequence[Field[T]], item: T, view: Callable[[T], RenderableType]) -> None:
    """Prints one object: `view` for people, whole as JSON, as a list of one otherwise."""
    if app.format is Format.TABLE:
        app.console().print(view(item))
    else:
        show_list(app, fields, [item])


def table(fields: Sequence[Field[T]], items: Iterable[T]) -> Table:
    """A list for people."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for field in fields:
        made.add_column(field.title, justify="right" if field.right else "left", overflow="fold")
    for item in items:
        made.add_row(*(Text(printable(field.text(item))) for field in fields))
    return made


def sheet(pairs: Iterable[tuple[str, str]]) -> Table:
    """Names and values below one another; pairs without a value are left out."""
    made = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            made.add_row(name, Text(printable_lines(value)))
    return made


def sections(*parts: tuple[str, RenderableType | None]) -> Group:
    """Parts below one another, each under its title; those that are None are left out."""
    lines: list[RenderableType] = []
    for title, part in parts:
        if part is not None:
            lines += [Text(""), Text(title, style="bold")] if title else []
            lines.append(part)
    return Group(*lines)


def as_text(renderable: RenderableType, *, width: int = 200) -> str:
    """The text that a terminal of that width shows, without colours."""
    console = Console(width=width, no_color=True, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _json_lines(items: Iterable[Any]) -> None:
    for item in items:
        click.echo(jsontext.dumps(jsontext.plain(item)))
    sys.stdout.flush()
