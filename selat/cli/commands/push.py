"""`selat push`: a file's rows, or those of standard input, into a stream at one site."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import click

import selat
from contract.arrow_types import arrow_schema
from selat.cli.base import jsontext
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import Format, settings_options
from selat.cli.commands.push_files import FORMATS, format_of, read_tables
from selat.cli.output import human
from selat.cli.output.progress import LiveLine, logged_above


@click.command()
@settings_options
@click.argument("stream")
@click.argument("file", default="-")
@click.option("--site", required=True, help="Where the rows go; the stream is bound there to the connector 'push'.")
@click.option(
    "--producer",
    default="",
    metavar="ID",
    help="Name of this input: run again with the same file, what was stored is skipped.  [default: a new one]",
)
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), help="Format of the input.  [default: by the file's name]"
)
@click.option(
    "--batch-rows",
    type=click.IntRange(1, 100_000),
    default=10_000,
    show_default=True,
    help="Rows sent, and stored or refused, together. A second run has to use the same.",
)
@click.option("--end", is_flag=True, help="Afterwards the stream ends at this site, for good.")
@pass_app
def push(  # noqa: PLR0913 - one per option
    app: App, stream: str, file: str, site: str, producer: str, kind: str | None, batch_rows: int, end: bool
) -> None:
    """Send the rows of FILE (CSV with a header, JSON lines, Parquet, or Arrow; '-' is standard input) to STREAM.

    The command ends when all rows are on the site's disk. If the agent goes away, it waits and goes on.

    \b
    Examples:
      selat push orders orders.csv --site us
      selat push orders orders.parquet --site us --producer orders-2026-01 --end
      tail -F shop.log | to-json | selat push orders --site us --format json --batch-rows 100
    """
    found = format_of(file, kind)
    with app.connect() as client, _opened(file) as source, _shown(app) as line:
        sending = client.push(stream, site, producer_id=producer, first_sequence=1)
        with sending:
            schema = arrow_schema(sending.stream.columns)
            for table in read_tables(source, found, schema, rows=batch_rows):
                sending.send(table)
                line.show(_text(sending))
            sending.flush()
            if end:
                sending.finish()
    _summary(app, sending, ended=end)


def _summary(app: App, sending: selat.Producer, *, ended: bool) -> None:
    totals = sending.totals
    if app.format is not Format.TABLE:
        content = {
            "stream": sending.stream.name,
            "site": sending.site,
            "producer": sending.id,
            "rows": totals.rows,
            "batches": totals.batches,
            "bytes": totals.bytes,
            "duplicate_batches": totals.duplicates,
            "duplicate_rows": totals.duplicate_rows,
            "last_sequence": sending.last_sequence,
            "ended": ended,
        }
        click.echo(jsontext.dumps(content))
        return
    click.echo(f"{_text(sending)}{', stream ended' if ended else ''}")


def _text(sending: selat.Producer) -> str:
    totals = sending.totals
    text = f"{sending.stream.name} at {sending.site}: {human.count(totals.rows)} rows, {human.size(totals.bytes)}"
    if totals.duplicates:
        text += f", {human.count(totals.duplicate_rows)} rows skipped that were there"
    return text


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with open(file, "rb") as source:
            yield source
    except OSError as error:
        if error.filename != file:
            raise
        raise selat.InvalidArgument(f"{file} cannot be read: {error.strerror}") from None


@contextmanager
def _shown(app: App) -> Iterator[LiveLine]:
    line = LiveLine(sys.stderr, enabled=app.live)
    with logged_above(line):
        yield line
