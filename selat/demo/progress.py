"""Shows the demo's progress on stderr: a live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

import selat
from selat.cli.output import human
from selat.cli.output.links import matrix
from selat.cli.output.listing import as_text
from selat.client.links import LinkView

_UNFOLDED = 10_000
"""Columns of the console: a row with any number of sites stays one line."""


@dataclass(frozen=True, slots=True)
class LinkBytes:
    """The traffic of one directed link."""

    from_site: str
    to_site: str
    bytes: int


def crossed(queries: Iterable[selat.QueryInfo]) -> tuple[LinkBytes, ...]:
    """The traffic of all queries, ordered by names. Each channel belongs to one query, so nothing is counted twice."""
    sums: Counter[tuple[str, str]] = Counter()
    for link in (link for query in queries for link in query.links):
        sums[link.from_site, link.to_site] += link.bytes
    return tuple(LinkBytes(source, target, size) for (source, target), size in sorted(sums.items()) if size)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment."""

    seconds: float
    """Since the demo was started."""
    queries: Sequence[selat.QueryInfo]
    wan: Sequence[LinkView] = field(default=())
    """What the master knows of every ordered pair of sites."""

    @property
    def flowing(self) -> bool:
        """Whether anything crosses the WAN."""
        return any(view.used_bytes_per_s > 0 for view in self.wan)

    @property
    def links(self) -> tuple[LinkBytes, ...]:
        return crossed(self.queries)


class Display(Protocol):
    """Shows snapshots."""

    def show(self, snapshot: Snapshot) -> None: ...

    def end(self, snapshot: Snapshot) -> None:
        """Show the last snapshot, which stays on the screen."""
        ...


class LinesDisplay:
    """Prints a line every few seconds; all links once data flows, and then now and then."""

    def __init__(self, console: Console, *, every_s: float = 5.0, links_every_s: float = 20.0) -> None:
        self._console = console
        self._every_s = every_s
        self._links_every_s = links_every_s
        self._next_s = 0.0
        self._next_links_s = 0.0

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.seconds >= self._next_s:
            self._next_s = snapshot.seconds + self._every_s
            self._print(line(snapshot))
        if snapshot.flowing and snapshot.seconds >= self._next_links_s:
            self._next_links_s = snapshot.seconds + self._links_every_s
            self._print(link_lines(snapshot))

    def end(self, snapshot: Snapshot) -> None:
        self._print(line(snapshot))
        self._print(link_lines(snapshot))

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class LiveDisplay:
    """Redraws tables in place."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, snapshot: Snapshot) -> None:
        self._live.update(tables(snapshot))

    def end(self, snapshot: Snapshot) -> None:
        self._live.console.print(wan_table(snapshot))


@contextmanager
def display(console: Console) -> Iterator[Display]:
    """The display that suits the console."""
    if not console.is_terminal:
        yield LinesDisplay(console)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield LiveDisplay(live)


def line(snapshot: Snapshot) -> str:
    """`12 s: delays 1,234 rows in, 56 out, to 2013-02-01 | ... | WAN 12.3 kB`"""
    parts = [_figures(info) for info in snapshot.queries]
    wan_bytes = sum(link.bytes for link in snapshot.links)
    return f"{snapshot.seconds:.0f} s: " + " | ".join([*parts, f"WAN {human.size(wan_bytes)}"])


def _figures(info: selat.QueryInfo) -> str:
    counts = f"{human.count(info.rows_in)} rows in, {human.count(info.rows_out)} out"
    return f"{info.name} {counts}, to {human.instant(info.watermark)}"


def tables(snapshot: Snapshot) -> RenderableType:
    """Queries above, all links below."""
    queries = Table("query", "state", title=f"{snapshot.seconds:.0f} s", title_justify="left")
    for name in ("rows in", "rows out"):
        queries.add_column(name, justify="right")
    queries.add_column("watermark")
    for info in snapshot.queries:
        counts = human.count(info.rows_in), human.count(info.rows_out)
        queries.add_row(info.name, info.state.value, *counts, human.instant(info.watermark))
    return Group(queries, wan_table(snapshot))


def wan_table(snapshot: Snapshot) -> Table:
    """Use, capacity and round trip of every ordered pair of sites as `selat wan show` has them, and what crossed."""
    return matrix(snapshot.wan, {(link.from_site, link.to_site): link.bytes for link in snapshot.links})


def link_lines(snapshot: Snapshot) -> str:
    """The same for where nothing can be drawn anew."""
    head = f"{snapshot.seconds:.0f} s: every link: use of capacity (~: as declared), round trip, what crossed"
    return f"{head}\n{as_text(wan_table(snapshot), width=_UNFOLDED)}"


def link_table(links: Sequence[LinkBytes]) -> Table:
    """Bytes that crossed each link."""
    table = Table("link")
    table.add_column("crossed", justify="right")
    for link in links:
        table.add_row(f"{link.from_site} > {link.to_site}", human.size(link.bytes))
    return table
