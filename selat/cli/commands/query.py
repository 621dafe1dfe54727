"""`selat query`: look at queries, read their results, end them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import click
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

import selat
from contract.figures import Shown
from machine.terminal import printable_lines
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import EPOCH, Format, settings_options
from selat.cli.commands.adapt import MOMENT_FIELDS
from selat.cli.commands.delay import delay
from selat.cli.commands.follow import load_cursor, print_results, print_table
from selat.cli.commands.move import combine, move, moves, scale
from selat.cli.commands.statements import print_explanation
from selat.cli.output import human
from selat.cli.output.fields import LINK_FIELDS, SHARED_FIELDS, STAGE_FIELDS, task_fields
from selat.cli.output.listing import Field, sections, sheet, show_list, show_one, table
from selat.cli.output.progress import wait_text
from selat.client.results import FromEpoch

QUERY_FIELDS: tuple[Field[selat.QueryInfo], ...] = (
    Field("id", lambda q: q.id),
    Field("name", lambda q: q.name),
    Field("state", lambda q: q.state.value),
    Field("rows_in", lambda q: q.rows_in, lambda q: human.count(q.rows_in), right=True),
    Field("rows_out", lambda q: q.rows_out, lambda q: human.count(q.rows_out), right=True),
    Field("link_bytes", lambda q: q.link_bytes, lambda q: human.size(q.link_bytes), right=True),
    Field("watermark", lambda q: q.watermark, lambda q: human.instant(q.watermark)),
    Field("submitted_at", lambda q: q.submitted_at, lambda q: human.instant(q.submitted_at.replace(microsecond=0))),
    Field("sql", lambda q: q.sql, lambda q: human.one_line(q.sql, 60)),
)

_OWNER: Field[selat.QueryInfo] = Field("owner", lambda q: q.owner)
_OWNED_FIELDS = (*QUERY_FIELDS[:3], _OWNER, *QUERY_FIELDS[3:])
_STATES = [state.value for state in selat.QueryState if state is not selat.QueryState.UNKNOWN]


@click.group()
def query() -> None:
    """List, show, explain, read, move, scale, combine, pause and cancel queries.

    QUERY is an id, the beginning of an id that no other query shares, or a name.
    """


@query.command("list")
@settings_options
@click.option("--all", "everything", is_flag=True, help="Also those that are over.")
@click.option("--state", "states", type=click.Choice(_STATES), multiple=True, help="Only those; repeatable.")
@click.option("--text", default="", help="Only those whose id, name or SQL has it.")
@click.option("--summary", is_flag=True, help="As JSON: without tasks, links, columns and what is shared.")
@pass_app
def list_queries(app: App, everything: bool, states: tuple[str, ...], text: str, summary: bool) -> None:
    """List the running queries.

    \b
    Examples:
      selat query list
      selat query list --state failed --state cancelled
      selat query list --all -o json | jq -r 'select(.state == "failed") | .id'
    """
    chosen = [selat.QueryState(state) for state in states]
    brief = summary or app.format is not Format.JSON
    with app.connect() as client:
        found = [q.last for q in client.queries(all=everything, states=chosen, text=text, summary=brief)]
        # At a master that does not check callers, queries have no owners.
        fields = _OWNED_FIELDS if any(q.owner for q in found) else QUERY_FIELDS
        show_list(app, fields, found)


@query.command()
@settings_options
@click.argument("query")
@click.option(
    "--watch", is_flag=True, help="Go on until the query is over: live on a terminal, else one answer a second."
)
@pass_app
def show(app: App, query: str, watch: bool) -> None:
    """Show one query: state, tasks, links.

    \b
    Examples:
      selat query show q-0001
      selat query show visits --watch
    """
    with app.connect() as client:
        found = client.query(query)
        if watch:
            _watch(app, found)
        else:
            show_one(app, QUERY_FIELDS, found.last, partial(query_view, now=app.now()))


@query.command()
@settings_options
@click.argument("query")
@click.option("--analyze", is_flag=True, help="Also what is measured: rows, bytes, busy share, lag, state, links.")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option("--watch", is_flag=True, help="With --analyze: once a second, until the query is over.")
@pass_app
def explain(app: App, query: str, analyze: bool, as_json: bool, watch: bool) -> None:
    """Print the plan of a submitted query; with --analyze, beside present measurements.

    \b
    Examples:
      selat query explain q-0001
      selat query explain visits --analyze --watch
      selat query explain visits --analyze --json
    """
    if watch and not analyze:
        raise click.UsageError("--watch needs --analyze: a plan alone does not change")
    if as_json:
        app = App(replace(app.settings, output=Format.JSON))
    with app.connect() as client:
        found = client.query(query)
        if watch:
            _watch_plan(app, found)
        else:
            print_explanation(app, found.explain(analyze=analyze))


@query.command()
@settings_options
@click.argument("query")
@click.option("--follow/--no-follow", default=True, help="Go on until the query is over, or print what there is now.")
@click.option(
    "--cursor-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Begin where the last run with this file stopped, and keep the place in it.",
)
@click.option(
    "--from-epoch",
    type=EPOCH,
    default=0,
    help="Begin at this epoch in channels that the cursor file does not name; first: at the first that is kept.",
)
@click.option(
    "--changes",
    is_flag=True,
    help="Of a query with EMIT EVERY: print the changes without --follow, too, not the table.",
)
@pass_app
def results(  # noqa: PLR0913 - one per option
    app: App, query: str, follow: bool, cursor_file: Path | None, from_epoch: FromEpoch, changes: bool
) -> None:
    """Print the results of a query; Ctrl-C ends the printing, not the query.

    Of a query with EMIT EVERY these are its changes, as they come; with --no-follow, the table that they leave.

    \b
    Examples:
      selat query results q-0001 --no-follow -o csv > so_far.csv
      selat query results visits --cursor-file visits.cursor >> visits.jsonl
      selat query results visits --from-epoch 1200
      selat query results visits --from-epoch first
    """
    with app.connect() as client:
        found = client.query(query)
        cursor = load_cursor(cursor_file, found.id) if cursor_file else None
        if not (follow or changes or cursor_file) and found.info().upsert_by is not None:
            print_table(app, found.results(follow=False, from_epoch=from_epoch))
            return
        wanted = found.results(follow=follow, cursor=cursor, from_epoch=from_epoch)
        print_results(app, found, wanted, cursor_file)


@query.command()
@settings_options
@click.argument("query")
@pass_app
def cancel(app: App, query: str) -> None:
    """Cancel a query; results that were delivered stay readable.

    \b
    Example:
      selat query cancel q-0001
    """
    _change(app, query, selat.Query.cancel)


@query.command()
@settings_options
@click.argument("query")
@pass_app
def pause(app: App, query: str) -> None:
    """Pause a query's tasks and release their slots; results so far stay readable.

    \b
    Example:
      selat query pause q-0001
    """
    _change(app, query, selat.Query.pause)


@query.command()
@settings_options
@click.argument("query")
@pass_app
def resume(app: App, query: str) -> None:
    """Resume a paused query where it stopped.

    \b
    Example:
      selat query resume q-0001
    """
    _change(app, query, selat.Query.resume)


@query.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.argument("query")
@pass_app
def history(app: App, query: str, as_json: bool) -> None:
    """Show the states that a query came into, and what adaptation decided about it, oldest first.

    \b
    Examples:
      selat query history visits
      selat query history visits --json | jq -r .reason
    """
    if as_json:
        app = App(replace(app.settings, output=Format.JSON))
    with app.connect() as client:
        show_list(app, MOMENT_FIELDS, client.query_history(query))


query.add_command(delay)
query.add_command(move)
query.add_command(combine)
query.add_command(moves)
query.add_command(scale)


def _change(app: App, query: str, change: Callable[[selat.Query], selat.QueryInfo]) -> None:
    with app.connect() as client:
        info = change(client.query(query))
        show_one(app, QUERY_FIELDS, info, lambda q: f"query {q.id} {q.state.value}")


def query_view(info: selat.QueryInfo, *, now: datetime) -> RenderableType:
    """One query for people."""
    sharing = info.sharing
    ran = human.duration((info.ended_at or now) - info.submitted_at)
    pairs = (
        ("query", info.id),
        ("name", info.name),
        ("state", info.state.value + (f" ({info.reason})" if info.reason else "")),
        ("owner", info.owner),
        (
            "submitted",
            f"{human.instant(info.submitted_at.replace(microsecond=0))}, {ran} {'in all' if info.over else 'ago'}",
        ),
        ("writes to", f"sink {info.sink} at {info.sink_site}" if info.sink else ""),
        ("gateway", "" if info.sink else info.gateway),
        ("columns", ", ".join(f"{c.name} {c.type}" for c in info.columns)),
        ("rows in", human.count(info.rows_in)),
        ("rows written" if info.sink else "rows out", human.count(info.rows_out)),
        ("rows late", human.count(info.rows_late) if info.rows_late else ""),
        ("rows malformed", human.count(info.rows_malformed) if info.rows_malformed else ""),
        ("rows left out", human.count(info.rows_shed) if info.rows_shed else ""),
        ("watermark", human.instant(info.watermark)),
        ("over links", _crossed(info)),
        ("on disk", ", ".join(f"{human.size(size_bytes)} at {site}" for site, size_bytes in info.disk_bytes.items())),
        ("sharing", _sharing(sharing) if sharing else ""),
        ("starts at", human.instant(sharing.starts_at) if sharing and sharing.starts_at else ""),
        ("sql", info.sql),
    )
    return sections(
        ("", sheet(pairs)),
        ("batch", sheet(_batch_pairs(info.batch)) if info.batch else None),
        ("stages", table(STAGE_FIELDS, info.stages) if info.batch and info.tasks else None),
        ("tasks", table(task_fields(Shown.QUERY), info.tasks) if info.tasks else None),
        ("links", table(LINK_FIELDS, info.links) if info.links else None),
        ("shared with others", table(SHARED_FIELDS, sharing.operators) if sharing and sharing.operators else None),
    )


def _crossed(info: selat.QueryInfo) -> str:
    """`14.0 MB of 1.2 GB that were born (1.2 %), for 0.28 USD`, as far as these are known."""
    text = human.size(info.link_bytes)
    if info.input_bytes:
        text += f" of {human.size(info.input_bytes)} that were born ({info.link_bytes / info.input_bytes:.1%})"
    if info.wan_cost is not None:
        text += f", for {human.money(info.wan_cost, info.currency)}"
    return text


def _batch_pairs(batch: selat.BatchProgress) -> list[tuple[str, str]]:
    placed = batch.running + batch.done
    pairs = [
        ("tasks", f"{batch.tasks}: {batch.done} done, {batch.running} running, {batch.waiting} waiting"),
        ("splits", f"{human.size(batch.done_bytes)} of {human.size(batch.size_bytes)} done"),
        ("local", f"{batch.local} of {placed} ({batch.local_share:.0%})" if batch.local_share is not None else ""),
        ("scheduler", batch.scheduler),
    ]
    return [*pairs, *(("waits", f"{wait.task}: {wait_text(wait)}") for wait in batch.waits)]


def _sharing(sharing: selat.QuerySharing) -> str:
    return f"{sharing.mode}, {human.size(sharing.bytes_saved)} of what others sent anyhow"


def _watch(app: App, found: selat.Query) -> None:
    console = app.console()
    with found.watch() as states:
        if app.format is not Format.TABLE or not console.is_terminal:
            for info in states:
                show_one(app, QUERY_FIELDS, info, partial(query_view, now=app.now()))
            return
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            for info in states:
                live.update(query_view(info, now=app.now()), refresh=True)


def _watch_plan(app: App, found: selat.Query) -> None:
    console = app.console()
    with found.watch() as states:
        if app.format is not Format.TABLE or not console.is_terminal:
            for _ in states:
                print_explanation(app, found.explain(analyze=True))
            return
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            for _ in states:
                plan = printable_lines(found.explain(analyze=True).text)
                live.update(Text(plan, no_wrap=True), refresh=True)
