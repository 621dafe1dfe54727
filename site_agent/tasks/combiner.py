"""The jobs of a COMBINE stage: its statement makes one partial of all of a group.

What goes before a job and what follows is done on its slot: where many windows close at once, each change of threads
takes longer than the work.
"""

from __future__ import annotations

import pyarrow as pa

from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EpochManifest
from site_agent.engine import ArrowScan, EpochRequest, OperatorRows
from site_agent.state.segments import without_bins
from site_agent.tasks.context import Run, TaskContext
from site_agent.tasks.held import HeldGroups, as_given, as_held, numbers_of, sorted_by_key, together, without_numbers


class Combiner:
    """Runs the jobs of one task."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self.operators: tuple[OperatorRows, ...] = ()
        """The rows of the operators of the last job; a task clears them when a step begins."""

    async def combined(self, rows: pa.Table) -> pa.Table:
        """One row for each group, with its number, as it came."""
        return await self._context.compute(lambda run: self._combined(run, rows))

    async def fewer(self, _: str, rows: pa.Table) -> pa.Table:
        """Fewer rows, as they are held."""
        return as_held(await self.combined(as_given(rows)))

    async def one_of_each(self, rows: pa.Table) -> pa.Table:
        """One row for each group, in the order of the keys."""
        return await self._context.compute(lambda run: self._one_of_each(run, rows))

    async def hold(self, held: HeldGroups, came: pa.Table | None) -> int:
        """Take in the rows of an epoch. Return how many were dropped, because their window has left."""
        if came is None:
            return await self._context.in_thread(lambda: held.add(None))
        return await self._context.compute(lambda run: held.add(self._combined(run, came)))

    async def close(self, held: HeldGroups, came: pa.Table | None, watermark_us: int) -> tuple[pa.Table | None, int]:
        """Take in the rows of an epoch, but those of windows that its watermark ends.

        Returns:
            One row for each group of these windows, with what was held of it, in the order of the keys; and how many of
            the others were dropped, because their window has left.

        Raises:
            DamagedStateError: a run is not as it was written.
        """

        def close(run: Run) -> tuple[pa.Table | None, int]:
            parts = (held.closing(watermark_us), came)
            rows = together([without_numbers(part) for part in parts if part is not None])
            if rows is None:
                return None, held.add(None)
            closing, dropped = held.add_open(self._combined(run, rows), watermark_us)
            return self._one_of_each(run, closing) if closing.num_rows else None, dropped

        return await self._context.compute(close)

    async def remove(self, held: HeldGroups, log: ChannelLog, left: EpochManifest) -> None:
        """Let go of the groups that left with an epoch. Raises ChannelError."""

        def remove(run: Run) -> None:
            rows = log.epochs.read(left.epoch)
            if rows is not None:
                held.drop(numbers_of(self._combined(run, rows)))
            # Rows without numbers leave when their window closes, and with the silence of the input.
            held.advance(left.watermark_us)
            if left.idle:
                held.clear()

        await self._context.compute(remove)

    def _combined(self, run: Run, rows: pa.Table) -> pa.Table:
        spec, site, scan = self._context.spec, self._context.site, ArrowScan(without_bins(without_numbers(rows)))
        result = run(EpochRequest(spec.task_id, spec.sql, scan, site, functions=spec.functions))
        self.operators = result.operators
        return result.table

    def _one_of_each(self, run: Run, rows: pa.Table) -> pa.Table:
        several = len(numbers_of(rows)) < rows.num_rows
        return sorted_by_key(self._combined(run, rows) if several else rows)
