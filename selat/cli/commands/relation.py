"""`selat stream`, `table`, `view` and `sink`: look at the catalog. SQL changes it."""

from __future__ import annotations

import click
from rich.console import RenderableType

import selat
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, sections, sheet, show_list, show_one
from selat.cli.output.listing import table as table_of

_NAME: Field[selat.Relation] = Field("name", lambda r: r.name)
_COLUMNS: Field[selat.Relation] = Field("columns", lambda r: ", ".join(c.name for c in r.columns))
_SITES: Field[selat.Relation] = Field("sites", lambda r: ", ".join(b.site for b in r.bindings))
_COMMENT: Field[selat.Relation] = Field("comment", lambda r: r.comment)

TABLE_FIELDS: tuple[Field[selat.Relation], ...] = (_NAME, _COLUMNS, _SITES, _COMMENT)
SINK_FIELDS: tuple[Field[selat.Relation], ...] = (
    _NAME,
    _COLUMNS,
    _SITES,
    Field("path", lambda r: ", ".join(b.options.get("path", "") for b in r.bindings)),
    _COMMENT,
)
VIEW_FIELDS: tuple[Field[selat.Relation], ...] = (
    _NAME,
    _COLUMNS,
    Field("definition", lambda r: " ".join(r.definition.split())),
    _COMMENT,
)
STREAM_FIELDS: tuple[Field[selat.Relation], ...] = (
    _NAME,
    _COLUMNS,
    Field("event_time", lambda r: r.event_time),
    Field("delay_s", lambda r: r.watermark_delay.total_seconds(), lambda r: human.duration(r.watermark_delay)),
    _SITES,
    _COMMENT,
)


def _options(binding: selat.Binding) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(binding.options.items()) if key != "connector")


_COLUMN_FIELDS: tuple[Field[selat.Column], ...] = (
    Field("column", lambda c: c.name),
    Field("type", lambda c: c.type),
)
_BINDING_FIELDS: tuple[Field[selat.Binding], ...] = (
    Field("site", lambda b: b.site),
    Field("connector", lambda b: b.options.get("connector", "")),
    Field("options", _options),
)


@click.group()
def stream() -> None:
    """List and show streams. CREATE STREAM, ALTER STREAM and DROP STREAM in `selat sql` change them."""


@stream.command("list")
@settings_options
@pass_app
def list_streams(app: App) -> None:
    """List all streams.

    \b
    Example:
      selat stream list
    """
    with app.connect() as client:
        show_list(app, STREAM_FIELDS, client.streams())


@stream.command("show")
@settings_options
@click.argument("stream")
@pass_app
def show_stream(app: App, stream: str) -> None:
    """Show one stream: columns, event time, where it is bound.

    \b
    Example:
      selat stream show clicks
    """
    with app.connect() as client:
        show_one(app, STREAM_FIELDS, client.stream(stream), relation_view)


@click.group()
def table() -> None:
    """List and show tables. CREATE TABLE and DROP TABLE in `selat sql` change them."""


@table.command("list")
@settings_options
@pass_app
def list_tables(app: App) -> None:
    """List all tables.

    \b
    Example:
      selat table list
    """
    with app.connect() as client:
        show_list(app, TABLE_FIELDS, client.tables())


@table.command("show")
@settings_options
@click.argument("table")
@pass_app
def show_table(app: App, table: str) -> None:
    """Show one table: columns, where it is bound.

    \b
    Example:
      selat table show pages
    """
    with app.connect() as client:
        show_one(app, TABLE_FIELDS, client.table(table), relation_view)


@click.group()
def sink() -> None:
    """List and show sinks. CREATE SINK, ALTER SINK and DROP SINK in `selat sql` change them, INSERT INTO fills them."""


@sink.command("list")
@settings_options
@pass_app
def list_sinks(app: App) -> None:
    """List all sinks.

    \b
    Example:
      selat sink list
    """
    with app.connect() as client:
        show_list(app, SINK_FIELDS, client.sinks())


@sink.command("show")
@settings_options
@click.argument("sink")
@pass_app
def show_sink(app: App, sink: str) -> None:
    """Show one sink: columns if it declares any, site, where it is.

    \b
    Example:
      selat sink show daily
    """
    with app.connect() as client:
        show_one(app, SINK_FIELDS, client.sink(sink), relation_view)


@click.group()
def view() -> None:
    """List and show views. CREATE VIEW and DROP VIEW in `selat sql` change them."""


@view.command("list")
@settings_options
@pass_app
def list_views(app: App) -> None:
    """List all views.

    \b
    Example:
      selat view list
    """
    with app.connect() as client:
        show_list(app, VIEW_FIELDS, client.views())


@view.command("show")
@settings_options
@click.argument("view")
@pass_app
def show_view(app: App, view: str) -> None:
    """Show one view: columns and query.

    \b
    Example:
      selat view show slow_pages
    """
    with app.connect() as client:
        show_one(app, VIEW_FIELDS, client.view(view), relation_view)


def relation_view(relation: selat.Relation) -> RenderableType:
    """One stream, table, view or sink for people."""
    watermark = f"{relation.event_time} - {human.duration(relation.watermark_delay)}" if relation.event_time else ""
    created = relation.created_at.replace(microsecond=0) if relation.created_at else None
    pairs = (
        (relation.kind.value, relation.name),
        ("comment", relation.comment),
        ("watermark", watermark),
        ("created", human.instant(created) if created else ""),
        ("definition", relation.definition),
    )
    parts = [("", sheet(pairs)), ("columns", table_of(_COLUMN_FIELDS, relation.columns) if relation.columns else None)]
    if relation.kind is not selat.RelationKind.VIEW:
        parts.append(("bindings", table_of(_BINDING_FIELDS, relation.bindings)))
    return sections(*parts)
