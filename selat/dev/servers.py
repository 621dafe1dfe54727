"""`selat master` and `selat agent`: replace this process by a server, with the server's options."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

_PASS_THROUGH = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@click.command(context_settings=_PASS_THROUGH, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def master(arguments: tuple[str, ...]) -> None:
    """Run a master. `selat master --help` lists its options.

    \b
    Example:
      selat master --listen 10.8.0.1:7410 --insecure --data /var/lib/selat --topology regions.yaml
    """
    _become("master", arguments)


@click.command(context_settings=_PASS_THROUGH, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def agent(arguments: tuple[str, ...]) -> None:
    """Run the agent of one or more sites. `selat agent --help` lists its options.

    \b
    Example:
      selat agent --site eu:4 --master 10.8.0.1:7410 --listen 10.8.0.2:7411 --insecure \\
                  --data /var/lib/selat --allow-path /data
    """
    _become("site_agent", arguments)


def _become(module: str, arguments: tuple[str, ...]) -> NoReturn:
    """Replace this process by `python -m module`: signals and exit codes are then the server's."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
