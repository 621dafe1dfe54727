"""`selat token`: tokens of people, sites and frameworks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
from rich.console import RenderableType

import selat
from machine.bearer import new_token
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, sheet, show_list, show_one
from selat.client.tokens import Caller, NewToken, Token
from selat.errors import Detail

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TokenLine:
    """A token, flat, as programs see it."""

    id: str
    name: str
    state: str
    roles: tuple[str, ...]
    bound_to: tuple[str, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewTokenLine:
    """A new token, as programs see it."""

    id: str
    name: str
    roles: tuple[str, ...]
    bound_to: tuple[str, ...]
    expires_at: datetime | None
    secret: str | None
    file: str | None
    """The file that holds the secret."""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with a token that no master knows yet."""

    file: str


TOKEN_FIELDS: tuple[Field[TokenLine], ...] = (
    Field("id", lambda t: t.id),
    Field("name", lambda t: t.name),
    Field("state", lambda t: t.state),
    Field("roles", lambda t: " ".join(t.roles)),
    Field("bound_to", lambda t: " ".join(t.bound_to)),
    Field("expires_at", lambda t: t.expires_at, lambda t: _seconds(t.expires_at)),
    Field("created_at", lambda t: t.created_at, lambda t: _seconds(t.created_at)),
    Field("created_by", lambda t: t.created_by),
)

_NEW_FIELDS: tuple[Field[NewTokenLine], ...] = (
    Field("id", lambda t: t.id),
    Field("name", lambda t: t.name),
    Field("roles", lambda t: " ".join(t.roles)),
    Field("bound_to", lambda t: " ".join(t.bound_to)),
    Field("expires_at", lambda t: t.expires_at, lambda t: _seconds(t.expires_at)),
    Field("secret", lambda t: t.secret),
    Field("file", lambda t: t.file),
)

_FILE_FIELDS: tuple[Field[TokenFile], ...] = (Field("file", lambda t: t.file),)

_CALLER_FIELDS: tuple[Field[Caller], ...] = (
    Field("kind", lambda c: c.kind),
    Field("name", lambda c: c.name),
    Field("roles", lambda c: " ".join(c.roles)),
    Field("bound_to", lambda c: " ".join(c.bound_to)),
)


@click.group()
def token() -> None:
    """Create, list and revoke tokens, at a master that checks callers. Needs an admin."""


@token.command()
@settings_options
@click.argument("name")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="A role, or a group for GRANT; repeatable.")
@click.option("--site", "sites", multiple=True, metavar="SITE", help="For the agent of that site; repeatable.")
@click.option("--framework", metavar="NAME", help="For the framework of that name.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="It expires after so many.  [default: never]")
@click.option(
    "--to", type=click.Path(path_type=Path), metavar="FILE", help="Write the token there, for its user alone."
)
@pass_app
def create(  # noqa: PLR0913 - one per option
    app: App,
    *,
    name: str,
    roles: tuple[str, ...],
    sites: tuple[str, ...],
    framework: str | None,
    days: float | None,
    to: Path | None,
) -> None:
    """Create a token for NAME. It is shown once, here: the master keeps only its digest.

    Roles: reader, submitter, operator, functions, admin. Any other name is a group.

    \b
    Examples:
      selat token create ann --role submitter --role analysts --days 90 --to ann.token
      selat token create eu-agent --site eu --to eu.token
      selat token create nightly --framework nightly
    """
    roles, bound = _member(roles, sites, framework)
    if to is not None and to.exists():
        raise selat.InvalidArgument(f"{to} is there already", detail=Detail(hint="name a new file"))
    with app.connect() as client:
        made = client.create_token(name, roles, bound_to=bound, lifetime=timedelta(days=days) if days else None)
    if to is not None:
        _write(to, made.secret, "revoke it: selat token list has its id")
    show_one(app, _NEW_FIELDS, _new_line(made, to), _new_view)


@token.command()
@settings_options
@click.option(
    "--to", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The new file, for its user alone."
)
@pass_app
def new(app: App, *, to: Path) -> None:
    """Create the first token of a cluster that does not exist yet. No master is asked.

    A master that has no token of an admin takes it from the file that --bootstrap-token-file names.

    \b
    Example:
      selat token new --to admin.token
    """
    if to.exists():
        raise selat.InvalidArgument(f"{to} is there already", detail=Detail(hint="name a new file"))
    _write(to, new_token(), "name a file in a directory of your own")
    show_one(app, _FILE_FIELDS, TokenFile(str(to)), lambda made: _sheet_of(_FILE_FIELDS, made))


@token.command("list")
@settings_options
@click.option("--all", "everything", is_flag=True, help="Also those that have expired or were revoked.")
@pass_app
def list_tokens(app: App, everything: bool) -> None:
    """List the tokens that can be used. The secrets themselves are not stored, so nobody can list them.

    \b
    Examples:
      selat token list
      selat token list --all -o json | jq 'select(.state == "revoked") | .id'
    """
    with app.connect() as client:
        lines = [_line(t, app.now()) for t in client.tokens()]
    show_list(app, TOKEN_FIELDS, [t for t in lines if everything or t.state == "live"])


@token.command()
@settings_options
@click.argument("token")
@pass_app
def revoke(app: App, token: str) -> None:
    """Revoke the token of that id, or all tokens of that name.

    \b
    Examples:
      selat token revoke t-0a1b2c3d
      selat token revoke ann
    """
    with app.connect() as client:
        show_list(app, TOKEN_FIELDS, [_line(t, app.now()) for t in client.revoke_token(token)])


@token.command()
@settings_options
@pass_app
def whoami(app: App) -> None:
    """Show as whom the master authenticates you.

    \b
    Example:
      selat token whoami --token-file ann.token
    """
    with app.connect() as client:
        show_one(app, _CALLER_FIELDS, client.caller(), partial(_sheet_of, _CALLER_FIELDS))


def _member(
    roles: tuple[str, ...], sites: tuple[str, ...], framework: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The role and names for a token. Raises InvalidArgument."""
    if sum(map(bool, (roles, sites, framework))) != 1:
        raise selat.InvalidArgument(
            "a token is for a person (--role), for sites (--site) or for a framework (--framework)",
            detail=Detail(hint="selat token create ann --role submitter"),
        )
    if sites:
        return ("site",), sites
    return (("framework",), (framework,)) if framework else (roles, ())


def _write(path: Path, secret: str, hint: str) -> None:
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secret + "\n")
    except OSError as error:
        raise selat.InvalidArgument(
            f"the token was made, but {path} cannot be written: {error.strerror}", detail=Detail(hint=hint)
        ) from None


def _line(token: Token, now: datetime) -> TokenLine:
    return TokenLine(
        id=token.id,
        name=token.name,
        state=token.state(now),
        roles=token.roles,
        bound_to=token.bound_to,
        created_at=token.created_at,
        created_by=token.created_by,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
    )


def _new_line(made: NewToken, file: Path | None) -> NewTokenLine:
    """Without the secret if that was written to a file."""
    return NewTokenLine(
        id=made.token.id,
        name=made.token.name,
        roles=made.token.roles,
        bound_to=made.token.bound_to,
        expires_at=made.token.expires_at,
        secret=None if file is not None else made.secret,
        file=str(file) if file is not None else None,
    )


def _new_view(line: NewTokenLine) -> RenderableType:
    return _sheet_of([f for f in _NEW_FIELDS if f.raw(line)], line)


def _sheet_of(fields: Sequence[Field[T]], item: T) -> RenderableType:
    return sheet((field.name.replace("_", " "), field.text(item)) for field in fields)


def _seconds(value: datetime | None) -> str:
    return human.instant(value.replace(microsecond=0)) if value else "-"
