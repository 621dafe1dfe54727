"""`selat events`: what has happened in the cluster lately."""

from __future__ import annotations

from dataclasses import replace

import click

import selat
from machine.terminal import printable
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import Format, settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, show_list
from selat.client.events import Event, EventKind
from selat.errors import Detail

_KINDS = [kind.value for kind in EventKind if kind is not EventKind.UNKNOWN]

EVENT_FIELDS: tuple[Field[Event], ...] = (
    Field("at", lambda e: e.at, lambda e: human.instant(e.at.replace(microsecond=0))),
    Field("kind", lambda e: e.kind.value),
    Field("about", lambda e: about(e)),
    Field("count", lambda e: e.count, right=True),
    Field("message", lambda e: e.message),
)


@click.command()
@click.option("--follow", is_flag=True, help="Go on with each new one, until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option("--kind", "kinds", type=click.Choice(_KINDS), multiple=True, help="Only those; repeatable.")
@click.option("--query", default="", metavar="QUERY", help="Only those about this query.")
@click.option("--site", default="", metavar="NAME", help="Only those about this site, and links from or to it.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="So many at most.")
@settings_options
@pass_app
def events(  # noqa: PLR0913 - one per option
    app: App, *, follow: bool, as_json: bool, kinds: tuple[str, ...], query: str, site: str, limit: int
) -> None:
    """List recent events, oldest first: of queries, placements, sites, links, leases.

    \b
    Examples:
      selat events
      selat events --kind site --kind link --follow
      selat events --query visits --json | jq -r .message
    """
    if as_json:
        app = App(replace(app.settings, output=Format.JSON))
    chosen = [EventKind(kind) for kind in kinds]
    with app.connect() as client:
        found = client.events(kinds=chosen, query=query, site=site, limit=limit)
        if not follow:
            show_list(app, EVENT_FIELDS, found)
            return
        if app.format not in (Format.TABLE, Format.JSON):
            raise selat.InvalidArgument(
                f"events are not followed as {app.format.value}", detail=Detail(hint="use -o table or -o json")
            )
        after = found[-1].number if found else 0
        for event in found:
            _print(app, event)
        with client.watch_events(kinds=chosen, query=query, site=site, after=after) as watch:
            for event in watch:
                _print(app, event)


def about(event: Event) -> str:
    """The query, site or link that an event concerns."""
    place = f"{event.site} > {event.to_site}" if event.to_site else event.site
    return " ".join(filter(None, (event.query_id, place)))


def _print(app: App, event: Event) -> None:
    if app.format is Format.JSON:
        show_list(app, EVENT_FIELDS, [event])
        return
    times = f" ({event.count} times)" if event.count > 1 else ""
    at = human.instant(event.at.replace(microsecond=0))
    click.echo(printable(f"{at}  {event.kind.value:<9}  {about(event)}  {event.message}{times}"))
