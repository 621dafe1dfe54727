"""`selat site`: look at the regions."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import click
from rich.console import RenderableType
from rich.text import Text

import selat
from contract.figures import Shown
from selat.cli.base.app import App, pass_app
from selat.cli.base.options import settings_options
from selat.cli.output import human
from selat.cli.output.fields import LINK_FIELDS, task_fields
from selat.cli.output.listing import Field, sections, sheet, show_list, show_one, table

_LOOK_S = 1.0
"""Seconds between two polls of a site."""


def _received_bytes(site: selat.Site) -> int:
    return sum(link.bytes for link in site.links)


def _disk_bytes(site: selat.Site) -> int:
    return site.disk.used_bytes if site.disk else 0


def _whole_seconds(instant: datetime | None) -> datetime | None:
    return instant.replace(microsecond=0) if instant else None


SITE_FIELDS: tuple[Field[selat.Site], ...] = (
    Field("name", lambda s: s.name),
    Field("state", lambda s: s.state.value, lambda s: _state(s)),
    Field("slots", lambda s: s.slots, right=True),
    Field("tasks", lambda s: len(s.tasks), right=True),
    Field("memory_bytes", lambda s: s.memory_bytes, lambda s: human.size(s.memory_bytes), right=True),
    Field("disk_bytes", _disk_bytes, lambda s: human.size(_disk_bytes(s)), right=True),
    Field("received_bytes", _received_bytes, lambda s: human.size(_received_bytes(s)), right=True),
    Field("gateway", lambda s: s.gateway, lambda s: "yes" if s.gateway else ""),
    Field("last_report", lambda s: s.last_report, lambda s: human.instant(_whole_seconds(s.last_report))),
    Field("address", lambda s: s.address),
)

_OUTGOING_FIELDS: tuple[Field[selat.Link], ...] = (
    Field("to", lambda o: o.to_site),
    Field(
        "bandwidth", lambda o: o.bandwidth_bytes_per_s, lambda o: f"{human.size(o.bandwidth_bytes_per_s)}/s", right=True
    ),
    Field("latency", lambda o: o.latency / timedelta(seconds=1), lambda o: human.duration(o.latency), right=True),
)

_SITE_TASK_FIELDS: tuple[Field[selat.TaskStatus], ...] = (
    Field("query", lambda t: t.query_id),
    *task_fields(Shown.SITE),
)

_MEMORY_FIELDS: tuple[Field[selat.MemoryUse], ...] = (
    Field("agent_bytes", lambda m: m.agent_bytes, lambda m: human.size(m.agent_bytes), right=True),
    Field("jvm_bytes", lambda m: m.jvm_bytes, lambda m: human.size(m.jvm_bytes), right=True),
    Field("heap_used_bytes", lambda m: m.heap_used_bytes, lambda m: human.size(m.heap_used_bytes), right=True),
    Field(
        "heap_committed_bytes",
        lambda m: m.heap_committed_bytes,
        lambda m: human.size(m.heap_committed_bytes),
        right=True,
    ),
    Field("heap_max_bytes", lambda m: m.heap_max_bytes, lambda m: human.size(m.heap_max_bytes), right=True),
    Field("shared_by_sites", lambda m: m.sites, right=True),
)


_STREAM_LOG_FIELDS: tuple[Field[selat.StreamLog], ...] = (
    Field("stream", lambda log: log.stream),
    Field("size_bytes", lambda log: log.size_bytes, lambda log: human.size(log.size_bytes), right=True),
    Field("limit_bytes", lambda log: log.limit_bytes, lambda log: human.size(log.limit_bytes), right=True),
    Field("rows", lambda log: log.rows, right=True),
    Field("batches", lambda log: log.batches, right=True),
    Field("rows_stored", lambda log: log.rows_stored, right=True),
    Field("ended", lambda log: log.ended, lambda log: "yes" if log.ended else ""),
    Field("reason", lambda log: log.reason),
)


_DISK_FIELDS: tuple[Field[tuple[str, int]], ...] = (
    Field("kept_for", lambda kept: kept[0]),
    Field("disk_bytes", lambda kept: kept[1], lambda kept: human.size(kept[1]), right=True),
)


_WORK_FIELDS: tuple[Field[selat.SiteWork], ...] = (
    Field("kind", lambda w: w.kind),
    Field("query", lambda w: w.query_id),
    Field("task", lambda w: w.task_id),
    Field("subject", lambda w: w.subject),
    Field("movable", lambda w: w.movable, lambda w: "yes" if w.movable else "no"),
    Field("reason", lambda w: w.reason),
)


@click.group()
def site() -> None:
    """List and show sites; drain one before its machine is stopped."""


@site.command("list")
@settings_options
@pass_app
def list_sites(app: App) -> None:
    """List all sites, including those whose agent was never seen.

    \b
    Example:
      selat site list
    """
    with app.connect() as client:
        show_list(app, SITE_FIELDS, client.sites())


@site.command()
@settings_options
@click.argument("site")
@pass_app
def show(app: App, site: str) -> None:
    """Show one site: its agent, its tasks, the logs of pushed streams, its links.

    \b
    Examples:
      selat site show eu
      selat site show eu -o json | jq '.tasks[].lag_rows'
    """
    with app.connect() as client:
        show_one(app, SITE_FIELDS, client.site(site), site_view)


@site.command()
@click.option("--wait", is_flag=True, help="Go on until nothing is left there that could be elsewhere.")
@settings_options
@click.argument("site")
@pass_app
def drain(app: App, site: str, *, wait: bool) -> None:
    """Give a site no new work: no tasks of new queries, no leases. Shows its remaining work, and what ends it.

    What runs there goes on. The master remembers it until the site is undrained, also when it is started again.

    \b
    Examples:
      selat site drain eu
      selat site drain eu --wait && ssh eu systemctl stop selat-agent
      selat site drain eu -o json | jq '.work[] | select(.movable) | .query_id'
    """
    with app.connect() as client:
        drained = client.drain_site(site)
        while wait and (left := sum(work.movable for work in drained.work)):
            app.note(f"site {site}: {left} left that could be elsewhere")
            drained = _next_work(client, drained)
        show_one(app, SITE_FIELDS, drained, drained_view)


@site.command()
@settings_options
@click.argument("site")
@pass_app
def undrain(app: App, site: str) -> None:
    """Give a site work again.

    \b
    Example:
      selat site undrain eu
    """
    with app.connect() as client:
        show_one(app, SITE_FIELDS, client.undrain_site(site), lambda s: Text(f"site {s.name} takes work again"))


def _next_work(client: selat.Client, before: selat.Site) -> selat.Site:
    """The site once its remaining work has changed."""
    while True:
        time.sleep(_LOOK_S)
        now = client.site(before.name)
        if now.draining_since is None:
            raise selat.SelatError(f"site {before.name} is not draining any more: somebody has undrained it")
        if now.work != before.work:
            return now


def drained_view(site: selat.Site) -> RenderableType:
    """A draining site for people."""
    title = f"site {site.name} is draining: it gets no new work"
    if not site.work:
        return sections(("", Text(f"{title}; nothing is left there, its agent can be stopped")))
    return sections(("", Text(title)), ("still there", table(_WORK_FIELDS, site.work)))


def _state(site: selat.Site) -> str:
    return f"{site.state.value}, draining" if site.draining_since else site.state.value


def _disk(disk: selat.DiskUse) -> str:
    budget = f" of a budget of {human.size(disk.budget_bytes)}" if disk.budget_bytes else ""
    return f"{human.size(disk.used_bytes)}{budget}, {human.size(disk.free_bytes)} free"


def _kept(disk: selat.DiskUse | None) -> list[tuple[str, int]]:
    """The parts of the disk use, largest first."""
    if disk is None:
        return []
    others = {"replays": disk.replay_bytes, "pushed streams": disk.stream_log_bytes}
    kept = [(name, size_bytes) for name, size_bytes in {**disk.query_bytes, **others}.items() if size_bytes]
    return sorted(kept, key=lambda item: -item[1])


def site_view(site: selat.Site) -> RenderableType:
    """One site for people."""
    pairs = (
        ("site", site.name),
        ("state", _state(site)),
        ("draining", f"since {human.instant(_whole_seconds(site.draining_since))}" if site.draining_since else ""),
        ("gateway", "yes" if site.gateway else ""),
        ("address", site.address),
        ("version", site.version),
        ("slots", str(site.slots)),
        ("memory", human.size(site.memory_bytes)),
        ("disk", _disk(site.disk) if site.disk else ""),
        ("last report", human.instant(_whole_seconds(site.last_report))),
    )
    return sections(
        ("", sheet(pairs)),
        ("still there", table(_WORK_FIELDS, site.work) if site.work else None),
        ("memory", table(_MEMORY_FIELDS, [site.memory]) if site.memory.sites else None),
        ("disk", table(_DISK_FIELDS, kept) if (kept := _kept(site.disk)) else None),
        ("tasks", table(_SITE_TASK_FIELDS, site.tasks) if site.tasks else None),
        ("pushed streams", table(_STREAM_LOG_FIELDS, site.stream_logs) if site.stream_logs else None),
        ("received", table(LINK_FIELDS, site.links) if site.links else None),
        ("outgoing links", table(_OUTGOING_FIELDS, site.outgoing) if site.outgoing else None),
    )
