"""`selat query delay`: how long after their end windows are out, as a plot that grows, with what was done meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

import click

import selat
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import Format, settings_options
from selat.cli.commands.adapt import told
from selat.cli.output import human
from selat.cli.output.listing import Field, show_one
from selat.client.adaptation import QueryMoment
from selat.client.client import Client

LOOK_EVERY_S = 1.0
BAR_COLUMNS = 60
"""The bar of a longer delay ends in `+`."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """Windows of a query that are out."""

    at: datetime
    stage: str
    site: str
    delay_s: float


FIELDS: tuple[Field[Emitted], ...] = (
    Field("at", lambda e: e.at),
    Field("stage", lambda e: e.stage),
    Field("site", lambda e: e.site),
    Field("delay_s", lambda e: round(e.delay_s, 3)),
)


@click.command()
@click.argument("query")
@click.option(
    "--scale", type=click.FloatRange(min=0.001), default=0.2, show_default=True, help="Seconds of a column of the plot."
)
@settings_options
@pass_app
def delay(app: App, query: str, scale: float) -> None:
    """Plot how long after their end the windows of a query are out, until it is over; Ctrl-C ends the plot.

    A line for each time that windows come out; between them, what the query came into and what adaptation decided.
    With -o json, a value for each of the former.

    \b
    Examples:
      selat query delay visits
      selat query delay visits --scale 1
      selat query delay visits -o json | jq .delay_s
    """
    with app.connect() as client:
        found = client.query(query)
        for one in _looks(app, client, found):
            if app.format is not Format.TABLE:
                if isinstance(one, Emitted):
                    show_one(app, FIELDS, one, lambda e: "")
            elif isinstance(one, Emitted):
                click.echo(f"{human.instant(one.at.replace(microsecond=0))} {one.delay_s:7.1f} s  {bar(one, scale)}")
            else:
                click.echo(f"{human.instant(one.at.replace(microsecond=0))}  {_line(one)}")


def bar(one: Emitted, scale_s: float) -> str:
    """The delay as a bar."""
    columns = round(one.delay_s / scale_s)
    return "█" * columns if columns <= BAR_COLUMNS else "█" * BAR_COLUMNS + "+"


@dataclass
class Plot:
    """Says what each look at a query has that was not told yet."""

    emissions: dict[tuple[str, str], int] = field(default_factory=dict)
    """By task and site, how many were seen."""
    until: datetime | None = None
    """The last moment of the query's history that was seen."""
    last: str = ""

    def news(
        self, info: selat.QueryInfo, history: Iterable[QueryMoment], now: datetime
    ) -> Iterator[Emitted | QueryMoment]:
        """Yield what is new.

        Of windows that came out between two looks it is the latest; a decision that is made again is not new.
        """
        for moment in history:
            if self.until is None or moment.at > self.until:
                self.until = moment.at
                if (line := _line(moment)) != self.last:
                    self.last = line
                    yield moment
        seen = {(task.task_id, task.site): task.emissions for task in info.tasks}
        out = [task for task in info.tasks if task.emissions > self.emissions.get((task.task_id, task.site), 0)]
        self.emissions |= seen
        if out:
            latest = max(out, key=lambda task: task.emit_delay_s)
            yield Emitted(now, latest.stage_id, latest.site, latest.emit_delay_s)


def _looks(app: App, client: Client, found: selat.Query) -> Iterator[Emitted | QueryMoment]:
    """Yield what each look has, until the query is over."""
    plot = Plot()
    while True:
        info = found.info()
        yield from plot.news(info, client.query_history(found.id), app.now())
        if info.over:
            return
        time.sleep(LOOK_EVERY_S)


def _line(moment: QueryMoment) -> str:
    what = moment.state or "adaptation"
    text = human.one_line(told(moment), 100)
    return f"{what}: {text}" if text else what
