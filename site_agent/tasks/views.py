"""The views of a merge: for each the rows of its open windows; all close together, at one watermark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from planner.values.names import INPUT_VIEW
from site_agent.engine import ArrowScan, EmptyScan, Field, Scan
from site_agent.state.runs import RunFile, RunName
from site_agent.state.segments import ALL_BINS
from site_agent.state.stored import Alive
from site_agent.tasks.neighbours import OpenNeighbours
from site_agent.tasks.pairrows import OpenRows
from site_agent.tasks.sessions import OpenSessions
from site_agent.tasks.spec import WindowSpec
from site_agent.tasks.totals import OpenTotals
from site_agent.tasks.versionrows import OpenVersionRows
from site_agent.tasks.windows import OpenWindows

Rows = Mapping[str, pa.Table]
"""By view; views without rows are not in it."""


class OpenViews:
    """The state of a merge. `closed_us` is the watermark up to which windows were emitted."""

    def __init__(
        self,
        spec: WindowSpec,
        *,
        closed_us: int | None = None,
        runs: Mapping[str, Sequence[RunFile]] | None = None,
        alive: Mapping[str, Alive] | None = None,
    ) -> None:
        self._spec = spec
        self.windows = {
            view.name: kind_of(spec)(
                spec, closed_us=closed_us, runs=(runs or {}).get(view.name, ()), alive=(alive or {}).get(view.name)
            )
            for view in spec.views
        }

    @property
    def closed_us(self) -> int | None:
        return next(iter(self.windows.values())).closed_us

    @property
    def rows(self) -> int:
        return sum(windows.rows for windows in self.windows.values())

    @property
    def size_bytes(self) -> int:
        return sum(windows.size_bytes for windows in self.windows.values())

    @property
    def memory_bytes(self) -> int:
        """What its rows take in memory."""
        return sum(windows.fresh_bytes + windows.cached_bytes for windows in self.windows.values())

    @property
    def spare_bytes(self) -> int:
        """What of it is on disk as well."""
        return sum(windows.cached_bytes for windows in self.windows.values())

    def forget(self) -> None:
        """Keep in memory only what no checkpoint has stored."""
        for windows in self.windows.values():
            for run in windows.runs:
                run.cached = None

    def cache(self) -> None:
        """Have all rows in memory. Raises DamagedStateError."""
        for windows in self.windows.values():
            for run in windows.runs:
                run.cached = pa.concat_tables(list(run.read(lambda _: True)))

    @property
    def run_names(self) -> dict[str, list[RunName]]:
        """The runs that have open rows, by view."""
        return {view: [run.run.name for run in windows.runs] for view, windows in self.windows.items() if windows.runs}

    def begin_at(self, start_us: int) -> None:
        """Leave out all windows that begin earlier."""
        for windows in self.windows.values():
            windows.begin_at(start_us)

    def add(self, view: str, table: pa.Table, *, late_us: int | None = None) -> int:
        """Take rows in; those of windows already emitted are dropped; where there are none, those before `late_us`.

        Returns:
            How many were dropped.

        Raises:
            KeyError: the merge has no such view.
        """
        return self.windows[view].add([table], late_us=late_us)

    def crosses_boundary(self, watermark_us: int | None) -> bool:
        """Whether moving the watermark there ends at least one window, with rows or without."""
        return next(iter(self.windows.values())).crosses_boundary(watermark_us)

    def steps(self, watermark_us: int | None) -> list[int | None]:
        """Return the watermarks at which to stop on the way to one. Raises DamagedStateError."""
        return next(iter(self.windows.values())).steps(watermark_us)

    def ends_by(self, watermark_us: int | None) -> int:
        """How many rows may be of windows that end at or before the watermark and are not closed; never too few."""
        return sum(windows.ends_by(watermark_us) for windows in self.windows.values())

    def has_bins(self, watermark_us: int | None) -> bool:
        """Whether the bin of each row is known that may be of windows that the watermark ends."""
        return all(windows.has_bins(watermark_us) for windows in self.windows.values())

    def closing(self, watermark_us: int | None, bins: range = ALL_BINS) -> Rows:
        """The rows of these bins in the windows that the watermark ends. Nothing changes until `advance`.

        Raises:
            DamagedStateError: a run is not as it was written.
        """
        found = {view: windows.closing(watermark_us, bins) for view, windows in self.windows.items()}
        return {view: rows for view, rows in found.items() if rows is not None}

    def advance(self, watermark_us: int | None) -> None:
        """The windows that end at or before the watermark are closed: their rows go."""
        for windows in self.windows.values():
            windows.advance(watermark_us)

    def can_match(self, closed: Rows) -> bool:
        """Whether these rows can give a result."""
        return bool(closed) and all(view.name in closed for view in self._spec.views if view.required)


def kind_of(spec: WindowSpec) -> type[OpenWindows]:
    """Return what holds the rows of a view."""
    if spec.pairs is not None:
        return OpenVersionRows if spec.pairs.newest else OpenRows
    if spec.totals is not None:
        return OpenTotals
    if spec.neighbours is not None:
        return OpenNeighbours
    return OpenWindows if spec.sessions is None else OpenSessions


def scans_of(closed: Rows, columns: Mapping[str, tuple[Field, ...]]) -> tuple[Scan, dict[str, Scan]]:
    """Rows for the engine: those of `input`, and those of the other views; `columns` has the schema of each."""
    scans: dict[str, Scan] = {
        view: ArrowScan(closed[view]) if view in closed else EmptyScan(fields) for view, fields in columns.items()
    }
    return scans.pop(INPUT_VIEW), scans
