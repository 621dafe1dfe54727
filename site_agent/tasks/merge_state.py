"""The open rows of a merge, in memory and in runs, and how they get from the one to the other.

A checkpoint writes the rows that came since the one before, as a run for each view, and names all runs that have open
rows. Rows in memory are then a cache. What a checkpoint writes is combined first where that makes it much less, and so
are runs of a like size (`planner.state.merging`): range by range of bins, so that the rows of one range are in memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa

from machine.faults import reached
from planner.state.merging import WORTH, Merging, MergingLimits, runs_to_merge
from planner.state.ranges import ranges_of_bins
from site_agent.base.disk import disk_error
from site_agent.base.faults import FaultPoint
from site_agent.state.memory import StateMemory
from site_agent.state.runs import RunFile, writing
from site_agent.state.segments import ALL_BINS
from site_agent.state.stored import StoredRows
from site_agent.tasks.checkpoint import Checkpoint, CheckpointStore, SavedState
from site_agent.tasks.context import TaskContext
from site_agent.tasks.spec import ViewSpec, WindowSpec
from site_agent.tasks.versions import views_of
from site_agent.tasks.views import OpenViews
from site_agent.tasks.windows import OpenWindows

TAIL_SHARE = 8
"""A checkpoint is due when such a part of the state is new, or such a part of the memory for state is taken by it."""
_LESS = 0.8
"""Rows are combined before they are written if no larger share of them is left."""
_PATIENCE = 8
"""After a combine that did not help, so many checkpoints do without."""

Combine = Callable[[str, pa.Table], Awaitable[pa.Table]]
"""Runs a combine statement over partials."""


class MergeState:
    """Of one attempt of a task; after an error it is of no more use.

    Args:
        context: the task's.
        window: how its windows close.
        combine: see `Combine`; it may raise EngineError.
        opened: makes the open rows of what was saved; None: they are those of its runs.
    """

    def __init__(
        self,
        context: TaskContext,
        window: WindowSpec,
        combine: Combine,
        opened: Callable[[SavedState], OpenViews] | None = None,
    ) -> None:
        self._context = context
        self._window = window
        self._combine = combine
        self._store = CheckpointStore(context.directory)
        self._patience = dict.fromkeys((view.name for view in window.views), 0)
        self._tried: dict[str, dict[int, int]] = {view.name: {} for view in window.views}
        self._opened = opened or self._of_runs
        self.open = views_of(window)

    @property
    def memory(self) -> StateMemory:
        return self._context.memory

    async def restore(self) -> SavedState:
        """The last checkpoint; the rows of its runs are open again.

        Raises:
            SiteAgentError: a file is damaged.
        """
        saved = await self._context.in_thread(self._store.load_state)
        self.open = await self._context.in_thread(partial(self._opened, saved))
        self.memory.hold(self.open)
        return saved

    def _of_runs(self, saved: SavedState) -> OpenViews:
        views = views_of(self._window, closed_us=saved.checkpoint.closed_us, runs=saved.runs)
        # Rows of sessions and pairs are looked at every second.
        if self._window.takes_again and views.size_bytes <= self.memory.limit_bytes // 2:
            views.cache()
        return views

    def close(self) -> None:
        """Its rows take no memory any more."""
        self.memory.release(self.open)

    def pin(self) -> Mapping[str, Sequence[RunFile]]:
        """The runs of the last checkpoint, by view; their files stay until `unpin`."""
        runs = {view: [stored.run for stored in windows.runs] for view, windows in self.open.windows.items()}
        self._store.pinned = frozenset(run.name.file for found in runs.values() for run in found)
        return runs

    def unpin(self) -> None:
        """Let the next checkpoint remove the files that no checkpoint names."""
        self._store.pinned = frozenset()

    async def spill(self, place: int) -> None:
        """Write the rows in memory into runs, before there is a first checkpoint, which names them.

        Raises:
            ChannelError: the disk refuses.
        """
        for view in self._window.views:
            await self._write_fresh(view, self._store.run_path(0, view.name, place))

    def ranges(self, watermark_us: int | None, *, first: int = 0) -> Sequence[range]:
        """The ranges of bins, from the bin `first` on, in which windows close; one, where rows must be together."""
        if not (self._window.by_bins and self.open.has_bins(watermark_us)):
            return (ALL_BINS,)
        found = ranges_of_bins(self.open.ends_by(watermark_us), rows_at_once=self._rows_at_once, first=first)
        return found if len(found) > 1 or first else (ALL_BINS,)

    async def save(self, checkpoint: Checkpoint, *, one_of_each: bool = False) -> None:
        """Make this the last checkpoint, with all open rows.

        Args:
            checkpoint: what it says beside the rows.
            one_of_each: combine all rows of a group, as far as there is a statement that does.

        Raises:
            EngineError: rows cannot be combined.
            ChannelError: the disk refuses; the checkpoint before it counts.
        """
        for view in self._window.views:
            await self._store_fresh(view, checkpoint.number)
        reached(FaultPoint.STATE_WRITTEN)
        for view in self._window.views:
            await self._merge_runs(view, checkpoint.number, one_of_each=one_of_each and bool(view.combine_sql))
        names = self.open.run_names
        await self._context.in_thread(lambda: self._store.save_state(checkpoint, names))
        self.memory.make_room()

    def due_bytes(self) -> int:
        """Return how many bytes of new rows make a checkpoint due.

        That is a part of the state, because with many small runs windows would close slowly; it is less where new rows
        are what takes the memory.
        """
        together_bytes = min(self.open.size_bytes, self.memory.limit_bytes) // TAIL_SHARE
        if not self.memory.make_room():
            together_bytes = 0
        return max(self._context.limits.checkpoint_bytes, together_bytes)

    @property
    def _rows_at_once(self) -> int:
        return self._context.limits.rows_at_once

    async def _store_fresh(self, view: ViewSpec, number: int) -> None:
        windows = self.open.windows[view.name]
        if self._lacks_bins(view):
            await self._bin_fresh(view)
        elif view.combine_sql and windows.fresh_rows >= self._context.limits.compact_rows:
            await self._compact(view, windows)
        await self._write_fresh(view, self._store.run_path(number, view.name, 0))

    async def _write_fresh(self, view: ViewSpec, path: Path) -> None:
        windows = self.open.windows[view.name]
        rows = windows.fresh()
        if rows is None:
            return
        run = await self._context.in_thread(lambda: self._written(path, rows))
        windows.replace_fresh(None)
        windows.runs.append(windows.stored_rows(run, rows))

    async def know_bins(self, watermark_us: int | None) -> None:
        """Before many rows are closed: have rows say their bins that came without.

        Raises:
            EngineError: rows cannot be combined.
        """
        if self._window.by_bins and self.open.ends_by(watermark_us) > self._rows_at_once:
            for view in filter(self._lacks_bins, self._window.views):
                await self._bin_fresh(view)

    def _lacks_bins(self, view: ViewSpec) -> bool:
        """Return whether rows came without bins, as those combined at sites, and the combining SQL adds them."""
        binned = self._window.by_bins and bool(view.combine_sql)
        return binned and not self.open.windows[view.name].fresh_has_bins

    async def _bin_fresh(self, view: ViewSpec) -> None:
        windows, at_once = self.open.windows[view.name], self._rows_at_once
        rows = windows.fresh()
        assert rows is not None
        parts = [
            await self._combine(view.combine_sql, windows.grouped(rows.slice(first, at_once)))
            for first in range(0, rows.num_rows, at_once)
        ]
        windows.replace_fresh(pa.concat_tables(parts, promote_options="permissive"))

    async def compact(self) -> None:
        """Combine the rows of cells that are out, where no checkpoint has stored them.

        Raises:
            EngineError: rows cannot be combined.
        """
        for view in self._window.views:
            if view.combine_sql:
                await self._compact(view, self.open.windows[view.name])

    async def _compact(self, view: ViewSpec, windows: OpenWindows) -> None:
        """Combine the rows that no checkpoint has stored, if the first range of them shows that it helps."""
        if self._patience[view.name]:
            self._patience[view.name] -= 1
            return
        parts = []
        for bins in self._ranges_of(windows.fresh_rows, windows.fresh_has_bins):
            rows = await self._context.in_thread(partial(windows.fresh, bins))
            if rows is None:
                continue
            parts.append(await self._combine(view.combine_sql, windows.grouped(rows)))
            if parts[0].num_rows > _LESS * rows.num_rows and len(parts) == 1:
                self._patience[view.name] = _PATIENCE
                return
        windows.replace_fresh(pa.concat_tables(parts, promote_options="permissive") if parts else None)

    async def _merge_runs(self, view: ViewSpec, number: int, *, one_of_each: bool) -> None:
        """Make one run of several, as often as that is due; of all runs, if one row of each group is wanted."""
        windows, limits = self.open.windows[view.name], self._context.limits
        sizes, tried = MergingLimits(limits.runs_alike, limits.runs_most), self._tried[view.name]
        place = 0
        while merging := runs_to_merge([r.run.rows for r in windows.runs], sizes, tried=tried, into_one=one_of_each):
            if not (view.combine_sql or merging.always):
                return
            place += 1
            chosen = [windows.runs[at] for at in merging.places]
            path = self._store.run_path(number, view.name, place)
            merged = await self._merged(view, windows, chosen, merging, path)
            if merged is None:
                tried[merging.size_class] = len(chosen)
                continue
            tried.pop(merging.size_class, None)
            kept = [run for run in windows.runs if all(run is not gone for gone in chosen)]
            windows.runs = [*kept, *merged]
            reached(FaultPoint.RUNS_MERGED)

    async def _merged(
        self, view: ViewSpec, windows: OpenWindows, chosen: Sequence[StoredRows], merging: Merging, path: Path
    ) -> list[StoredRows] | None:
        """The run that these become, or no run if none of their rows is open; None: too many rows are left."""
        context, before = self._context, sum(run.run.rows for run in chosen)
        has_bins = all(run.run.has_bins for run in chosen)
        parts: list[pa.Table] = []
        tried = False
        with self._refusals(), writing(path, self._window.column) as writer:
            for bins in self._ranges_of(before, has_bins):
                rows = await context.in_thread(partial(windows.stored, chosen, bins))
                if rows is None:
                    continue
                combined = await self._combine(view.combine_sql, windows.grouped(rows)) if view.combine_sql else rows
                await context.in_thread(partial(writer.add, combined))
                if not (merging.always or tried) and combined.num_rows > WORTH * rows.num_rows:
                    writer.give_up()
                    return None
                tried = True
                # No more rows are in memory than those of one range.
                parts = [*parts, combined] if writer.rows <= self._rows_at_once else []
            if not writer.rows:
                writer.give_up()
                return []
            run = await context.in_thread(writer.finish)
        cached = pa.concat_tables(parts, promote_options="permissive") if run.rows <= self._rows_at_once else None
        return [windows.stored_rows(run, cached)]

    def _ranges_of(self, rows: int, has_bins: bool) -> Sequence[range]:
        if not (self._window.by_bins and has_bins):
            return (ALL_BINS,)
        found = ranges_of_bins(rows, rows_at_once=self._rows_at_once)
        return found if len(found) > 1 else (ALL_BINS,)

    def _written(self, path: Path, rows: pa.Table) -> RunFile:
        with self._refusals(), writing(path, self._window.column) as writer:
            writer.add(rows)
            return writer.finish()

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raises ChannelError for an error of the disk."""
        task = self._context.spec.task_id
        try:
            yield
        except OSError as error:
            raise disk_error(f"the state of {task}", error, ids={"task": task}) from error
