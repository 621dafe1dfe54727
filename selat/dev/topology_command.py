"""`selat topology`: topology files from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import click

from selat.cli.base.app import App, pass_app
from selat.dev.terraform import topology_of_outputs
from selat.local.errors import DevError


@click.group()
def topology() -> None:
    """Make the file that names the sites and gives the figures of their links."""


@topology.command("from-terraform")
@click.option("--to", "target", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it there.")
@click.argument("outputs", type=click.File("rb"), default="-", metavar="[FILE]")
@pass_app
def from_terraform(app: App, *, target: Path | None, outputs: BinaryIO) -> None:
    """Turn what `terraform output -json` prints, from FILE or standard input, into a topology file.

    \b
    Examples:
      terraform output -json | selat topology from-terraform --to regions.yaml
      sudo selat wan up --topology regions.yaml    the same regions on this machine
    """
    text = topology_of_outputs(outputs.read())
    if target is None:
        click.echo(text, nl=False)
        return
    try:
        target.write_text(text)
    except OSError as error:
        raise DevError.of(f"cannot write {target}: {error.strerror}", hint="name a file that can be written") from None
    app.note(f"{target} is written")
