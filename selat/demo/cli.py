"""`selat demo`."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

import selat
from selat.cli.base import jsontext
from selat.cli.base.app import App, pass_app
from selat.demo.dataset import YEAR_IN_A_MINUTE, prepare
from selat.demo.report import print_outcome
from selat.demo.run import Run

_DIRECTORY = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, nothing else.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=YEAR_IN_A_MINUTE,
    metavar="FACTOR",
    help="Event time per real time.  [default: a year in a minute]",
)
@click.option("--dir", "directory", type=_DIRECTORY, help="Where to work.  [default: a temporary directory]")
@click.option("--keep", is_flag=True, help="Leave data, results and logs there.")
@click.option(
    "--prepare", "prepare_in", type=_DIRECTORY, help="Only write data, topology and SQL there; start nothing."
)
@pass_app
def demo(  # noqa: PLR0913 - one per option
    app: App, *, as_json: bool, speed: float, directory: Path | None, keep: bool, prepare_in: Path | None
) -> None:
    """Run five queries over all departures from New York in 2013, born at three airports, and prove the results.

    Each result is compared with DuckDB over the same files. Exit code 1: one differs.

    \b
    Examples:
      selat demo
      selat demo --json | jq .wan_bytes
      selat demo --prepare /tmp/nyc          then go on as docs/tour.md says
    """
    started_at = time.monotonic()
    if prepare_in is not None:
        prepare(prepare_in, speed=speed)
        app.note(f"wrote data, topology.yaml, declare.sql and one file per query to {prepare_in}")
        return
    console = Console(stderr=True, no_color=not app.colored(sys.stderr))
    with _workplace(app, directory, keep=keep) as root:
        outcome = Run(root, speed, console, started_at).go()
    if as_json:
        click.echo(jsontext.dumps(outcome.as_object()))
    else:
        print_outcome(app.console(), outcome)
    if not outcome.proven:
        click.get_current_context().exit(1)


@contextmanager
def _workplace(app: App, directory: Path | None, *, keep: bool) -> Iterator[Path]:
    """The directory to work in; a temporary one goes away at the end, unless it is to be kept or something failed."""
    if directory is not None:
        yield directory
        return
    temporary = Path(tempfile.mkdtemp(prefix="selat-demo-"))
    try:
        yield temporary
    except selat.SelatError:
        keep = True
        raise
    finally:
        if keep:
            app.note(f"data and logs are in {temporary}")
        else:
            shutil.rmtree(temporary, ignore_errors=True)
