"""`selat site`: look at the regions."""

from __future__ import annotations

from datetime import datetime, timedelta

import click
from rich.console import RenderableType

import selat
from selat.cli import human
from selat.cli.app import App, pass_app
from selat.cli.listing import Field, sections, sheet, show_list, show_one, table
from selat.cli.options import settings_options
from selat.cli.query import LINK_FIELDS, TASK_FIELDS


def _received_bytes(site: selat.Site) -> int:
    return sum(link.bytes for link in site.links)


def _whole_seconds(instant: datetime | None) -> datetime | None:
    return instant.replace(microsecond=0) if instant else None


SITE_FIELDS: tuple[Field[selat.Site], ...] = (
    Field("name", lambda s: s.name),
    Field("state", lambda s: s.state.value),
    Field("slots", lambda s: s.slots, right=True),
    Field("tasks", lambda s: len(s.tasks), right=True),
    Field("memory_bytes", lambda s: s.memory_bytes, lambda s: human.size(s.memory_bytes), right=True),
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
    *TASK_FIELDS,
    Field("retained_bytes", lambda t: t.retained_bytes, lambda t: human.size(t.retained_bytes), right=True),
    Field("in_flight_bytes", lambda t: t.in_flight_bytes, lambda t: human.size(t.in_flight_bytes), right=True),
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


@click.group()
def site() -> None:
    """List and show sites."""


@site.command("list")
@settings_options
@pass_app
def list_sites(app: App) -> None:
    """List all sites, those included whose agent was never seen.

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


def site_view(site: selat.Site) -> RenderableType:
    """One site for people."""
    pairs = (
        ("site", site.name),
        ("state", site.state.value),
        ("gateway", "yes" if site.gateway else ""),
        ("address", site.address),
        ("version", site.version),
        ("slots", str(site.slots)),
        ("memory", human.size(site.memory_bytes)),
        ("last report", human.instant(_whole_seconds(site.last_report))),
    )
    return sections(
        ("", sheet(pairs)),
        ("memory", table(_MEMORY_FIELDS, [site.memory]) if site.memory.sites else None),
        ("tasks", table(_SITE_TASK_FIELDS, site.tasks) if site.tasks else None),
        ("pushed streams", table(_STREAM_LOG_FIELDS, site.stream_logs) if site.stream_logs else None),
        ("received", table(LINK_FIELDS, site.links) if site.links else None),
        ("outgoing links", table(_OUTGOING_FIELDS, site.outgoing) if site.outgoing else None),
    )
