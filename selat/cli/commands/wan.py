"""`selat wan show`, `history` and `probe`: links as the master knows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

import click
from rich.console import RenderableType

from selat.cli.base.app import App, pass_app
from selat.cli.base.options import Format, settings_options
from selat.cli.output import human
from selat.cli.output.links import matrix, plot
from selat.cli.output.listing import Field, sheet, show_list, show_one
from selat.client.links import LinkPoint, LinkView, ProbeResult
from selat.errors import Detail, InvalidArgument

_LINK = re.compile(r"\s*([A-Za-z0-9_-]+?)\s*->\s*([A-Za-z0-9_-]+)\s*", re.ASCII)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|min|h|d)", re.ASCII)
_SPANS = {"s": timedelta(seconds=1), "min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}

_FIELDS: Sequence[Field[LinkView]] = (
    Field("from", lambda v: v.from_site),
    Field("to", lambda v: v.to_site),
    Field(
        "capacity_bytes_per_s",
        lambda v: v.capacity_bytes_per_s,
        lambda v: human.bits(v.capacity_bytes_per_s),
        right=True,
    ),
    Field("used_bytes_per_s", lambda v: v.used_bytes_per_s, lambda v: human.bits(v.used_bytes_per_s), right=True),
    Field(
        "available_bytes_per_s",
        lambda v: v.available_bytes_per_s,
        lambda v: human.bits(v.available_bytes_per_s),
        right=True,
    ),
    Field("rtt_s", lambda v: _seconds(v.rtt), lambda v: human.duration(v.rtt) if v.rtt else "-", right=True),
    Field("loss", lambda v: v.loss, lambda v: f"{v.loss * 100:.2g} %", right=True),
    Field(
        "age_s", lambda v: _seconds(v.age), lambda v: human.duration(v.age) if v.age is not None else "-", right=True
    ),
    Field("confidence", lambda v: v.confidence, lambda v: f"{v.confidence:.2f}", right=True),
    Field("method", lambda v: _method(v), lambda v: _method(v)),
    Field("state", lambda v: _state(v), lambda v: _state(v)),
)
_POINT_FIELDS: Sequence[Field[LinkPoint]] = (
    Field("at", lambda p: p.at),
    Field("capacity_bytes_per_s", lambda p: p.capacity_bytes_per_s),
    Field("used_bytes_per_s", lambda p: p.used_bytes_per_s),
    Field("rtt_s", lambda p: _seconds(p.rtt)),
    Field("loss", lambda p: p.loss),
    Field("method", lambda p: p.method.value if p.method else ""),
)


@click.command()
@click.option("--list", "as_list", is_flag=True, help="A line for each link instead of the matrix.")
@settings_options
@pass_app
def show(app: App, *, as_list: bool) -> None:
    """Show what all links carry, as a matrix; congested links are marked with !.

    \b
    Examples:
      selat wan show
      selat wan show --list
      selat wan show -o json | jq 'select(.congested)'
    """
    with app.connect() as client:
        links = client.links()
    if app.format is Format.TABLE and not as_list:
        app.console().print(matrix(links))
    else:
        show_list(app, _FIELDS, links)


@click.command()
@click.option("--last", default="1h", metavar="TIME", show_default=True, help="How far back, as in 10min, 1h, 2d.")
@click.argument("link")
@settings_options
@pass_app
def history(app: App, *, last: str, link: str) -> None:
    """Plot what was measured of one link: capacity, use, round trip.

    \b
    Example:
      selat wan history 'us->eu' --last 10min
    """
    source, target = _pair(link)
    span = _span(last)
    with app.connect() as client:
        points = client.link_history(source, target, last=span)
    if app.format is Format.TABLE:
        app.console().print(plot(f"{source} to {target}, the last {human.duration(span)}", points))
    else:
        show_list(app, _POINT_FIELDS, points)


@click.command()
@click.argument("link")
@settings_options
@pass_app
def probe(app: App, *, link: str) -> None:
    """Measure one link now: fills it for a second or two.

    \b
    Example:
      selat wan probe 'us->eu'
    """
    source, target = _pair(link)
    app.note(f"measuring {source} to {target}")
    with app.connect() as client:
        result = client.probe_link(source, target)
    if result.note:
        app.note(result.note)
    show_one(app, _PROBE_FIELDS, result, _probe_view)


_PROBE_FIELDS: Sequence[Field[ProbeResult]] = (
    Field("from", lambda r: r.link.from_site),
    Field("to", lambda r: r.link.to_site),
    Field("bytes_per_s", lambda r: r.bytes_per_s),
    Field("method", lambda r: r.method.value if r.method else ""),
    Field("bytes_sent", lambda r: r.bytes_sent),
    Field("took_s", lambda r: r.took.total_seconds()),
)


def _probe_view(result: ProbeResult) -> RenderableType:
    return sheet(
        (
            ("link", f"{result.link.from_site} to {result.link.to_site}"),
            ("measured", f"{human.bits(result.bytes_per_s)} by {result.method.value if result.method else '?'}"),
            (
                "capacity",
                f"{human.bits(result.link.capacity_bytes_per_s)}, "
                f"declared {human.bits(result.link.declared_bytes_per_s)}",
            ),
            ("sent", human.size(result.bytes_sent)),
            ("took", human.duration(result.took)),
        )
    )


def _state(link: LinkView) -> str:
    return "congested" if link.congested else ""


def _method(link: LinkView) -> str:
    return link.method.value if link.method else "declared"


def _seconds(time: timedelta | None) -> float | None:
    return time.total_seconds() if time is not None else None


def _pair(text: str) -> tuple[str, str]:
    match = _LINK.fullmatch(text)
    if match is None:
        raise InvalidArgument(f"{text!r} names no link", detail=Detail(hint="write FROM->TO in quotes, as in 'us->eu'"))
    return match.group(1), match.group(2)


def _span(text: str) -> timedelta:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise InvalidArgument(f"{text!r} is no time", detail=Detail(hint="for example 10min, 1h or 2d"))
    return float(match.group(1)) * _SPANS[match.group(2)]
