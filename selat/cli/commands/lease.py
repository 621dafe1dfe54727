"""`selat lease`, `selat framework`: slots, who holds them, and who may."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import click

import selat
from machine.terminal import printable
from selat.cli.base import jsontext
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import Format, settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, show_list
from selat.errors import Detail
from selat.leases import FrameworkInfo, Slot, SlotInfo, SlotState


@dataclass(frozen=True, slots=True)
class SlotLine:
    """A slot, flat, as programs see it."""

    slot: str
    site: str
    index: int
    state: str
    holder: str
    fencing: int | None
    granted_at: datetime | None
    expires_at: datetime | None
    grace_ends_at: datetime | None
    waiters: int
    offered_to: str
    offered_until: datetime | None
    reachable: bool
    draining: bool


SLOT_FIELDS: tuple[Field[SlotLine], ...] = (
    Field("slot", lambda s: s.slot),
    Field("state", lambda s: s.state),
    Field("holder", lambda s: s.holder or s.offered_to, lambda s: _holder(s)),
    Field("fencing", lambda s: s.fencing, lambda s: str(s.fencing) if s.fencing else "", right=True),
    Field("expires_at", lambda s: s.expires_at, lambda s: human.instant(_whole_seconds(s.expires_at))),
    Field(
        "free_by", lambda s: s.grace_ends_at or s.offered_until, lambda s: human.instant(_whole_seconds(_free_by(s)))
    ),
    Field("waiters", lambda s: s.waiters, right=True),
    Field("reachable", lambda s: s.reachable, lambda s: "draining" if s.draining else "yes" if s.reachable else "no"),
)

FRAMEWORK_FIELDS: tuple[Field[FrameworkInfo], ...] = (
    Field("name", lambda f: f.name),
    Field("held", lambda f: f.held, right=True),
    Field("waiting", lambda f: f.waiting, right=True),
    Field("quota", lambda f: f.quota, lambda f: "-" if f.quota is None else str(f.quota), right=True),
    Field("registered_at", lambda f: f.registered_at, lambda f: human.instant(_whole_seconds(f.registered_at))),
    Field("comment", lambda f: f.comment),
)


@click.group()
def lease() -> None:
    """List and watch slots: who holds them, until when, and how many wait."""


@lease.command("list")
@click.option("--site", metavar="NAME", help="Only the slots of this site.")
@click.option("--held", is_flag=True, help="Only the slots that somebody holds.")
@settings_options
@pass_app
def list_slots(app: App, *, site: str | None, held: bool) -> None:
    """List all slots, free ones included.

    \b
    Examples:
      selat lease list
      selat lease list --held -o json | jq 'select(.holder == "batch") | .slot'
    """
    with app.connect() as client:
        show_list(app, SLOT_FIELDS, list(map(_line, filter(_wanted(site, held=held), client.slots()))))


@lease.command()
@click.option("--site", metavar="NAME", help="Only the slots of this site.")
@settings_options
@pass_app
def watch(app: App, *, site: str | None) -> None:
    """Print every slot, then each one that changes, until interrupted. As JSON, or in lines for people.

    \b
    Examples:
      selat lease watch
      selat lease watch --site eu -o json
    """
    if app.format not in (Format.TABLE, Format.JSON):
        raise selat.InvalidArgument(
            f"changes are not written as {app.format.value}", detail=Detail(hint="use -o table or -o json")
        )
    wanted = _wanted(site, held=False)
    with app.connect() as client, client.watch_slots() as changes:
        for change in changes:
            gone = [slot for slot in change.gone if site in (None, slot.site)]
            _print(app, app.now(), filter(wanted, change.slots), gone)


@click.group()
def framework() -> None:
    """List frameworks that share the slots, add one, set a quota."""


@framework.command("list")
@settings_options
@pass_app
def list_frameworks(app: App) -> None:
    """List all frameworks: slots held, slots waited for, quota.

    \b
    Example:
      selat framework list
    """
    with app.connect() as client:
        show_list(app, FRAMEWORK_FIELDS, client.frameworks())


@framework.command()
@click.option("--comment", default="", help="What it is, for those who list frameworks.")
@settings_options
@click.argument("name")
@pass_app
def register(app: App, *, comment: str, name: str) -> None:
    """Register a framework. One that is registered already stays as it is, except for a new comment.

    \b
    Example:
      selat framework register batch --comment "nightly jobs"
    """
    with app.connect() as client:
        client.register_framework(name, comment=comment)
        show_list(app, FRAMEWORK_FIELDS, [f for f in client.frameworks() if f.name == name])


@framework.command()
@settings_options
@click.argument("name")
@click.argument("slots")
@pass_app
def quota(app: App, *, name: str, slots: str) -> None:
    """Limit how many slots a framework is granted: a number, or `none`. It keeps the slots that it holds.

    \b
    Examples:
      selat framework quota batch 4
      selat framework quota batch none
    """
    if slots != "none" and not (slots.isascii() and slots.isdecimal()):
        raise selat.InvalidArgument(f"{slots!r} is no quota", detail=Detail(hint="a number of slots, or none"))
    with app.connect() as client:
        show_list(app, FRAMEWORK_FIELDS, [client.set_quota(name, None if slots == "none" else int(slots))])


def _print(app: App, at: datetime, slots: Iterable[SlotInfo], gone: Iterable[Slot]) -> None:
    if app.format is Format.JSON:
        for info in slots:
            click.echo(jsontext.dumps(jsontext.plain(_line(info))))
        for slot in gone:
            click.echo(jsontext.dumps({"slot": str(slot), "site": slot.site, "index": slot.index, "state": "gone"}))
    else:
        time = human.instant(_whole_seconds(at))
        for info in slots:
            click.echo(f"{time}  {printable(describe(info))}")
        for slot in gone:
            click.echo(f"{time}  {printable(str(slot))}: gone")
    sys.stdout.flush()


def describe(info: SlotInfo) -> str:
    """One slot in one line."""
    text = f"{info.slot}: {info.state.value}"
    if info.lease is not None:
        until = info.lease.grace_ends_at if info.state is SlotState.GRACE else info.lease.expires_at
        text += f", held by {info.lease.holder} until {human.instant(_whole_seconds(until))} ({info.lease.fencing})"
    elif info.offered_to:
        text += f" to {info.offered_to} until {human.instant(_whole_seconds(info.offered_until))}"
    text += f", {info.waiters} waiting" if info.waiters else ""
    text += ", site draining" if info.draining else ""
    return text if info.reachable else f"{text}, site not heard"


def _wanted(site: str | None, *, held: bool) -> Callable[[SlotInfo], bool]:
    return lambda info: site in (None, info.slot.site) and (info.lease is not None or not held)


def _line(info: SlotInfo) -> SlotLine:
    lease = info.lease
    return SlotLine(
        slot=str(info.slot),
        site=info.slot.site,
        index=info.slot.index,
        state=info.state.value,
        holder=info.holder,
        fencing=lease.fencing if lease else None,
        granted_at=lease.granted_at if lease else None,
        expires_at=lease.expires_at if lease else None,
        grace_ends_at=lease.grace_ends_at if lease else None,
        waiters=info.waiters,
        offered_to=info.offered_to,
        offered_until=info.offered_until,
        reachable=info.reachable,
        draining=info.draining,
    )


def _holder(line: SlotLine) -> str:
    return line.holder or (f"(offered to {line.offered_to})" if line.offered_to else "")


def _free_by(line: SlotLine) -> datetime | None:
    return line.grace_ends_at or line.offered_until


def _whole_seconds(instant: datetime | None) -> datetime | None:
    return instant.replace(microsecond=0) if instant else None
