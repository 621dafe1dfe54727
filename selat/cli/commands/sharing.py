"""`selat sharing`: what running queries share."""

from __future__ import annotations

import click

import selat
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, show_list

SHARED_FIELDS: tuple[Field[selat.SharedOperator], ...] = (
    Field("task", lambda o: o.task_id),
    Field("kind", lambda o: o.kind),
    Field("site", lambda o: o.site),
    Field("queries", lambda o: ", ".join(o.queries)),
    Field("rate", lambda o: o.bytes_out_per_s, lambda o: f"{human.size(o.bytes_out_per_s)}/s", right=True),
    Field("links", lambda o: _links(o)),
    Field("moved_bytes", lambda o: _moved(o), lambda o: human.size(_moved(o)), right=True),
    Field("saved_bytes", lambda o: o.bytes_saved, lambda o: human.size(o.bytes_saved), right=True),
)


@click.command()
@settings_options
@pass_app
def sharing(app: App) -> None:
    """List the tasks that several queries need, and the bytes that links were spared.

    \b
    Examples:
      selat sharing
      selat sharing -o json | jq .links
    """
    with app.connect() as client:
        show_list(app, SHARED_FIELDS, client.sharing())


def _links(operator: selat.SharedOperator) -> str:
    return ", ".join(f"{link.from_site}->{link.to_site}" for link in operator.links)


def _moved(operator: selat.SharedOperator) -> int:
    return sum(link.bytes for link in operator.links)
