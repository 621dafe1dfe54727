"""`selat adapt`: what holds queries up, and what was decided about it."""

from __future__ import annotations

from dataclasses import replace

import click
from rich.console import Group, RenderableType
from rich.text import Text

from machine.terminal import printable
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import Format, settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, sheet, show_list
from selat.client.adaptation import AdaptationDecision, AdaptationOption, QueryMoment

DECISION_FIELDS: tuple[Field[AdaptationDecision], ...] = (
    Field("at", lambda d: d.at, lambda d: human.instant(d.at.replace(microsecond=0))),
    Field("query", lambda d: d.query_id),
    Field("verdict", lambda d: d.verdict),
    Field("cause", lambda d: d.cause),
    Field("where", lambda d: where(d)),
    Field("count", lambda d: d.count, right=True),
    Field("reason", lambda d: d.reason),
)

MOMENT_FIELDS: tuple[Field[QueryMoment], ...] = (
    Field("at", lambda m: m.at, lambda m: human.instant(m.at.replace(microsecond=0))),
    Field("what", lambda m: m.state or "adaptation"),
    Field("told", lambda m: told(m)),
)


@click.group()
def adapt() -> None:
    """Show what holds running queries up, and what was decided about it."""


@adapt.command()
@click.argument("query", default="")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option("--limit", type=click.IntRange(1, 5_000), default=20, show_default=True, help="So many at most.")
@settings_options
@pass_app
def explain(app: App, query: str, as_json: bool, limit: int) -> None:
    """Show the newest decisions, oldest first: about QUERY in detail, or about all queries in a list.

    Queries are looked at that were submitted after SET adaptation = 'advise' or 'on'.

    \b
    Examples:
      selat adapt explain
      selat adapt explain visits
      selat adapt explain visits --json | jq '.considered[]'
    """
    if as_json:
        app = App(replace(app.settings, output=Format.JSON))
    with app.connect() as client:
        found = client.adaptation_decisions(query, limit=limit)
        if app.format is not Format.TABLE or not query:
            show_list(app, DECISION_FIELDS, found)
            return
        if not found:
            click.echo("nothing was decided about it; SET adaptation = 'advise' or 'on' before a query is submitted")
        for one in found:
            app.console().print(decision_view(one))


def where(decision: AdaptationDecision) -> str:
    """The task, or the link, that the cause is at."""
    if decision.to_site:
        return f"{decision.site} > {decision.to_site}"
    return " at ".join(filter(None, (decision.task_id, decision.site)))


def told(moment: QueryMoment) -> str:
    """The reason of a state, or a decision in one line."""
    made = moment.decision
    if made is None:
        return moment.reason
    chosen = next((f"{option.action} {option.change}" for option in made.considered if not option.against), "")
    cause = f"{made.cause} at {where(made)}" if made.cause else ""
    return ": ".join(filter(None, (made.verdict, cause, chosen, made.reason, made.outcome)))


def decision_view(decision: AdaptationDecision) -> RenderableType:
    """A decision for people: what was seen, considered and expected, and what came of it."""
    at = human.instant(decision.at.replace(microsecond=0))
    times = f" ({decision.count} times since {human.instant(decision.first_at.replace(microsecond=0))})"
    pairs = [
        ("cause", f"{decision.cause}, {where(decision)}" if decision.cause else ""),
        ("seen", decision.seen),
        *(("considered", option_text(option)) for option in decision.considered),
        ("cost", decision.cost),
        ("reason", decision.reason),
        ("expected", decision.expected),
        ("outcome", decision.outcome),
    ]
    head = Text(printable(f"{at}  {decision.verdict}{times if decision.count > 1 else ''}"), style="bold")
    return Group(head, sheet(pairs))


def option_text(option: AdaptationOption) -> str:
    """An option in one line; those that were not taken say why."""
    use = "a link is missing" if option.link_use is None else f"busiest link {option.link_use:.0%} of what is left"
    parts = (f"{option.action}: {option.change}", option.note, f"{option.adapt_s:.0f} s", use)
    verdict = f"not taken: {option.against}" if option.against else "taken"
    return f"{', '.join(filter(None, parts))} - {verdict}"
