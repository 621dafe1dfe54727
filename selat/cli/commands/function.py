"""`selat function`: Python functions for SQL."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import RenderableType
from rich.text import Text

import selat
from machine.terminal import printable
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, sections, sheet, show_list, show_one

FIELDS: tuple[Field[selat.Function], ...] = (
    Field("name", lambda f: f.name),
    Field("parameters", lambda f: ", ".join(f"{p.name} {p.type}" for p in f.parameters)),
    Field("returns", lambda f: f.returns),
    Field("kind", lambda f: "vectorised" if f.vectorised else "scalar"),
    Field("file", lambda f: f.file),
    Field("version", lambda f: f.version),
)


@click.group()
def function() -> None:
    """Create, list, show and drop Python functions that SQL can call."""


@function.command()
@settings_options
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="Only the function of that name; else all that do not begin with an underscore.")
@click.option("--replace", is_flag=True, help="Replace those that exist; queries that run keep theirs.")
@pass_app
def create(app: App, file: Path, name: str | None, replace: bool) -> None:
    """Declare the functions of a Python file for SQL, with names and types from their annotations.

    \b
    Examples:
      selat function create geo.py
      selat function create geo.py --name cell --replace
    """
    with app.connect() as client:
        show_list(app, FIELDS, client.register_function(file, name=name, replace=replace))


@function.command("list")
@settings_options
@pass_app
def list_functions(app: App) -> None:
    """List all functions.

    \b
    Example:
      selat function list
    """
    with app.connect() as client:
        show_list(app, FIELDS, client.functions())


@function.command()
@settings_options
@click.argument("function")
@pass_app
def show(app: App, function: str) -> None:
    """Show one function: types, version, text of its module.

    \b
    Example:
      selat function show cell
    """
    with app.connect() as client:
        show_one(app, FIELDS, client.function(function), function_view)


@function.command()
@settings_options
@click.argument("function")
@pass_app
def drop(app: App, function: str) -> None:
    """Remove a function that no view and no running query calls.

    \b
    Example:
      selat function drop cell
    """
    with app.connect() as client:
        client.drop_function(function)
        show_one(app, (Field("dropped", str),), function, lambda name: f"function {name} dropped")


def function_view(function: selat.Function) -> RenderableType:
    """One function for people."""
    created = function.created_at.replace(microsecond=0) if function.created_at else None
    pairs = [(field.name, field.text(function)) for field in FIELDS]
    return sections(
        ("", sheet((*pairs, ("function", function.entry), ("created", human.instant(created) if created else "")))),
        ("source", Text("\n".join(printable(line.expandtabs()) for line in function.source.splitlines()))),
    )
