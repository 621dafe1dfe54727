"""Links between sites as people see them: a matrix of all, and one of them over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from selat.cli.output import human
from selat.cli.output.listing import sections
from selat.cli.output.plot import bars, carried, columns_of
from selat.client.links import LinkPoint, LinkView

_PLOT_WIDTH = 72
_PLOT_HEIGHT = 6


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
        parts.append((f"{name} (top: {human.bits(most)})", Text("\n".join(lines))))
    rtts = [(p.at.timestamp(), p.rtt.total_seconds()) for p in points if p.rtt is not None]
    if rtts:
        slowest = max(value for _, value in rtts)
        lines = bars(carried(columns_of(rtts, begin, end, _PLOT_WIDTH)), slowest, _PLOT_HEIGHT // 2)
        parts.append((f"round trip (top: {human.duration(timedelta(seconds=slowest))})", Text("\n".join(lines))))
    return sections(*parts)


def _total(pair: tuple[str, str], crossed: Mapping[tuple[str, str], int] | None) -> str:
    return f", {human.size(crossed.get(pair, 0))} in all" if crossed is not None else ""


def _cell(link: LinkView | None, total: str) -> Text:
    if link is None:
        return Text("")
    known = "" if link.age is not None else "~"
    use = f"{human.bits(link.used_bytes_per_s)} of {known}{human.bits(link.capacity_bytes_per_s)}"
    rtt = f", {human.duration(link.rtt)}" if link.rtt is not None else ""
    return Text(f"{use}{rtt}{total}{' !' if link.congested else ''}", style="bold red" if link.congested else "")
