"""`selat wan show`, `history` and `probe`: links as the master knows them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from selat.cli.base.app import App, pass_app
from selat.cli.base.options import Format, settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, sections, sheet, show_list, show_one
from selat.cli.output.plot import bars, carried, columns_of
from selat.client.links import LinkPoint, LinkView, ProbeResult
from selat.errors import Detail, InvalidArgument

_PLOT_WIDTH = 72
_PLOT_HEIGHT = 6
_LINK = re.compile(r"\s*([A-Za-z0-9_-]+?)\s*->\s*([A-Za-z0-9_-]+)\s*", re.ASCII)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|min|h|d)", re.ASCII)
_SPANS = {"s": timedelta(seconds=1), "min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}

_FIELDS: Sequence[Field[LinkView]] = (
    Field("from", lambda v: v.from_site),
    Field("to", lambda v: v.to_site),
    Field(
        "capacity_bytes_per_s", lambda v: v.capacity_bytes_per_s, lambda v: _bits(v.capacity_bytes_per_s), right=True
    ),
    Field("used_bytes_per_s", lambda v: v.used_bytes_per_s, lambda v: _bits(v.used_bytes_per_s), right=True),
    Field(
        "available_bytes_per_s", lambda v: v.available_bytes_per_s, lambda v: _bits(v.available_bytes_per_s), right=True
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


def matrix(links: Sequence[LinkView], crossed: Mapping[tuple[str, str], int] | None = None) -> Table:
    """Sites by sites: use of capacity, and the round trip. `~`: not measured, the topology file's figure.

    Args:
        crossed: bytes that crossed links so far, to be shown besides; None: nothing is.
    """
    sites = list(dict.fromkeys([v.from_site for v in links] + [v.to_site for v in links]))
    by_pair = {(v.from_site, v.to_site): v for v in links}
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    made.add_column("FROM \\ TO", style="bold")
    for site in sites:
        made.add_column(site, justify="right")
    for source in sites:
        cells = (_cell(by_pair.get((source, target)), _total((source, target), crossed)) for target in sites)
        made.add_row(source, *cells)
    return made


def plot(title: str, points: Sequence[LinkPoint]) -> RenderableType:
    """Capacity and use over time, in one scale, then the round trip."""
    if not points:
        return Text(f"{title}: nothing was measured")
    begin, end = points[0].at.timestamp(), points[-1].at.timestamp()
    most = max(max(p.capacity_bytes_per_s, p.used_bytes_per_s) for p in points)
    parts: list[tuple[str, RenderableType | None]] = [("", Text(title))]
    for name, values in (
        ("capacity", [(p.at.timestamp(), p.capacity_bytes_per_s) for p in points if p.capacity_bytes_per_s]),
        ("use", [(p.at.timestamp(), p.used_bytes_per_s) for p in points]),
    ):
        lines = bars(carried(columns_of(values, begin, end, _PLOT_WIDTH)), most, _PLOT_HEIGHT)
        parts.append((f"{name} (top: {_bits(most)})", Text("\n".join(lines))))
    rtts = [(p.at.timestamp(), p.rtt.total_seconds()) for p in points if p.rtt is not None]
    if rtts:
        slowest = max(value for _, value in rtts)
        lines = bars(carried(columns_of(rtts, begin, end, _PLOT_WIDTH)), slowest, _PLOT_HEIGHT // 2)
        parts.append((f"round trip (top: {human.duration(timedelta(seconds=slowest))})", Text("\n".join(lines))))
    return sections(*parts)


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
            ("measured", f"{_bits(result.bytes_per_s)} by {result.method.value if result.method else '?'}"),
            (
                "capacity",
                f"{_bits(result.link.capacity_bytes_per_s)}, declared {_bits(result.link.declared_bytes_per_s)}",
            ),
            ("sent", human.size(result.bytes_sent)),
            ("took", human.duration(result.took)),
        )
    )


def _total(pair: tuple[str, str], crossed: Mapping[tuple[str, str], int] | None) -> str:
    return f", {human.size(crossed.get(pair, 0))} in all" if crossed is not None else ""


def _cell(link: LinkView | None, total: str) -> Text:
    if link is None:
        return Text("")
    known = "" if link.age is not None else "~"
    use = f"{_bits(link.used_bytes_per_s)} of {known}{_bits(link.capacity_bytes_per_s)}"
    rtt = f", {human.duration(link.rtt)}" if link.rtt is not None else ""
    return Text(f"{use}{rtt}{total}{' !' if link.congested else ''}", style="bold red" if link.congested else "")


def _state(link: LinkView) -> str:
    return "congested" if link.congested else ""


def _method(link: LinkView) -> str:
    return link.method.value if link.method else "declared"


def _seconds(time: timedelta | None) -> float | None:
    return time.total_seconds() if time is not None else None


def _bits(bytes_per_s: float) -> str:
    """As links are spoken of."""
    bits_per_s = bytes_per_s * 8
    for unit, scale in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bits_per_s >= scale:
            return f"{bits_per_s / scale:.3g} {unit}"
    return f"{bits_per_s:.0f} bit/s"


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
