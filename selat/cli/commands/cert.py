"""`selat cert`: a certificate authority for a cluster, and the certificates of its members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

import selat
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import Format, settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, show_list
from selat.errors import Detail
from wire.authority import CA_KEY, CA_LIFE, MEMBER_LIFE, Authority
from wire.certificates import Certificate
from wire.errors import WireError
from wire.fetching import fetch as bring
from wire.files import MEMBER, Revoked, read_material
from wire.names import Role, member_name
from wire.times import now

P = ParamSpec("P")
R = TypeVar("R")

DIRECTORY = click.Path(file_okay=False, path_type=Path)
_LONGEST_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class CertificateLine:
    """A certificate as programs see it."""

    member: str
    """Role and name; `authority` for an authority's own."""
    serial: str
    ends_at: datetime
    state: str
    """`valid`, `revoked` or `out of date`."""
    directory: str
    """The directory where it is; empty in the record of an authority."""


FIELDS: tuple[Field[CertificateLine], ...] = (
    Field("member", lambda c: c.member),
    Field("state", lambda c: c.state),
    Field("ends_at", lambda c: c.ends_at, lambda c: human.instant(c.ends_at.replace(microsecond=0))),
    Field("serial", lambda c: c.serial),
    Field("directory", lambda c: c.directory),
)

_AUTHORITY = click.option(
    "--authority", type=DIRECTORY, required=True, metavar="DIR", help="Directory of the authority."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="The same as -o json.")


def _days(default: timedelta) -> Callable[[Callable[P, R]], Callable[P, R]]:
    return click.option(
        "--days",
        type=click.IntRange(1, _LONGEST_DAYS),
        default=default.days,
        show_default=True,
        help="How long it is valid.",
    )


def _told(command: Callable[P, R]) -> Callable[P, R]:
    """Turns errors with certificates into errors of this package."""

    @wraps(command)
    def telling(*args: P.args, **options: P.kwargs) -> R:
        try:
            return command(*args, **options)
        except WireError as error:
            raise selat.InvalidArgument(error.message, detail=Detail(hint=error.hint)) from None

    return telling


@click.group()
def cert() -> None:
    """Create an authority; issue, renew, fetch, revoke and show certificates of members."""


@cert.command()
@click.argument("directory", type=DIRECTORY)
@click.option("--name", default="Selat", show_default=True, help="Name of the authority, for those who look at it.")
@_days(CA_LIFE)
@_JSON
@settings_options
@pass_app
@_told
def init(app: App, directory: Path, *, name: str, days: int, as_json: bool) -> None:
    """Create an authority in DIRECTORY. Whoever has its key, ca.key, has the cluster: keep it off the members.

    \b
    Example:
      selat cert init /secure/authority
    """
    authority = Authority.create(directory, name, timedelta(days=days))
    _show(app, [_own_line(authority)], as_json=as_json)


@cert.command()
@click.argument("role", type=click.Choice([role.value for role in Role]))
@click.argument("name")
@_AUTHORITY
@click.option("--out", type=DIRECTORY, required=True, metavar="DIR", help="Directory of the member, for --tls-dir.")
@_days(MEMBER_LIFE)
@_JSON
@settings_options
@pass_app
@_told
def issue(app: App, role: str, name: str, *, authority: Path, out: Path, days: int, as_json: bool) -> None:  # noqa: PLR0913 - one per option
    """Create a key and a certificate for the member NAME in ROLE, ready for --tls-dir.

    \b
    Examples:
      selat cert issue master master --authority /secure/authority --out master-tls
      selat cert issue site eu --authority /secure/authority --out eu-tls
      selat cert issue client alice --authority /secure/authority --out ~/.selat-tls
    """
    found = Authority(authority).issue(member_name(role, name), out, timedelta(days=days))
    _show(app, [_line(found, out)], as_json=as_json)


@cert.command()
@click.argument("directories", nargs=-1, required=True, type=DIRECTORY)
@_AUTHORITY
@_days(MEMBER_LIFE)
@_JSON
@settings_options
@pass_app
@_told
def renew(app: App, directories: tuple[Path, ...], *, authority: Path, days: int, as_json: bool) -> None:
    """Replace the key and certificate in each of DIRECTORIES by new ones for the same member.

    Members take them over by themselves, within their next connection. Also brings the list of revoked certificates.

    \b
    Example:
      selat cert renew eu-tls us-tls --authority /secure/authority
    """
    issuing, lines = Authority(authority), []
    for directory in directories:
        member = _found(directory).member
        if member is None:
            raise WireError(f"the certificate in {directory} does not name a member", "issue one: selat cert issue")
        lines.append(_line(issuing.issue(member, directory, timedelta(days=days)), directory))
    _show(app, lines, as_json=as_json)


@cert.command()
@click.argument("url")
@click.argument("directory", type=DIRECTORY)
@_JSON
@settings_options
@pass_app
@_told
def fetch(app: App, url: str, directory: Path, *, as_json: bool) -> None:
    """Update a member's DIRECTORY from the files below URL: ca.pem, revoked.pem, member.pem, member.key.

    They are checked first. If one is missing or wrong, or they are another member's, DIRECTORY stays as it was. Running
    members take new files over by themselves.

    \b
    Example:
      selat cert fetch https://bucket.example/tls/eu /etc/selat/tls
    """
    bring(url, directory)
    _show(app, [_line(_found(directory), directory)], as_json=as_json)


@cert.command()
@click.argument("role", type=click.Choice([role.value for role in Role]), required=False)
@click.argument("name", required=False)
@click.option("--serial", metavar="HEX", help="Only this certificate, as `selat cert show` lists it.")
@_AUTHORITY
@click.option(
    "--copy-to",
    type=DIRECTORY,
    multiple=True,
    metavar="DIR",
    help="Copy the new list to this member's directory; repeatable.",
)
@_JSON
@settings_options
@pass_app
@_told
def revoke(  # noqa: PLR0913 - one per option
    app: App,
    role: str | None,
    name: str | None,
    *,
    serial: str | None,
    authority: Path,
    copy_to: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Revoke all certificates of the member NAME in ROLE, or the one with a serial number.

    Members refuse them from the moment that the new revoked.pem is in their directories.

    \b
    Examples:
      selat cert revoke site eu --authority /secure/authority --copy-to master-tls --copy-to us-tls
      selat cert revoke --serial 3fa9... --authority /secure/authority
    """
    if (serial is None) == (role is None or name is None):
        raise WireError("a member or a serial number is needed, not both", "selat cert revoke ROLE NAME")
    issuing = Authority(authority)
    wanted = member_name(role, name) if role is not None and name is not None else None
    found = [issued for issued in issuing.issued() if issued.member == wanted or f"{issued.serial:x}" == serial]
    if not found:
        raise selat.NotFound(
            f"the authority has issued no certificate {'of ' + str(wanted) if wanted else serial}",
            detail=Detail(hint=f"see what it has issued: selat cert show {authority}"),
        )
    issuing.revoke(issued.serial for issued in found)
    for directory in copy_to:
        issuing.hand_out(directory)
    lines = [CertificateLine(str(i.member), f"{i.serial:x}", i.ends, "revoked", "") for i in found]
    _show(app, lines, as_json=as_json)


@cert.command()
@click.argument("directory", type=DIRECTORY)
@_JSON
@settings_options
@pass_app
@_told
def show(app: App, directory: Path, *, as_json: bool) -> None:
    """Show the certificate in a member's DIRECTORY, or an authority's own and all that it has issued.

    \b
    Examples:
      selat cert show eu-tls
      selat cert show /secure/authority --json | jq 'select(.state == "valid")'
    """
    if not (directory / CA_KEY).exists():
        _show(app, [_line(_found(directory), directory)], as_json=as_json)
        return
    authority = Authority(directory)
    lines = [
        CertificateLine(str(i.member), f"{i.serial:x}", i.ends, _state(i.ends, revoked=i.revoked), "")
        for i in authority.issued()
    ]
    _show(app, [_own_line(authority), *lines], as_json=as_json)


def _show(app: App, lines: Iterable[CertificateLine], *, as_json: bool) -> None:
    if as_json:
        app = App(replace(app.settings, output=Format.JSON))
    show_list(app, FIELDS, list(lines))


def _found(directory: Path) -> Certificate:
    """The certificate in a member's directory, also an expired one."""
    return read_material(directory, out_of_date=True).certificate


def _line(found: Certificate, directory: Path) -> CertificateLine:
    revoked = Revoked(directory).has(found.serial)
    state = _state(found.ends, revoked=revoked)
    return CertificateLine(str(found.member), found.serial_text, found.ends, state, str(directory / MEMBER))


def _own_line(authority: Authority) -> CertificateLine:
    own = authority.certificate
    return CertificateLine(
        "authority", own.serial_text, own.ends, _state(own.ends, revoked=False), str(authority.directory)
    )


def _state(ends: datetime, *, revoked: bool) -> str:
    if revoked:
        return "revoked"
    return "valid" if ends > now() else "out of date"
