"""`selat sharing`: what running queries share."""

from __future__ import annotations

import click

from selat.cli.base.app import App, pass_app
from selat.cli.base.options import settings_options
from selat.cli.output.fields import SHARED_FIELDS
from selat.cli.output.listing import show_list


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
