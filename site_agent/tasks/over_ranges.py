"""Results that need all groups, computed in two steps: of each range of bins what can be, then the rest of all that.

The best k of each range are few. Of groups, a range gives one row for the partials that all sites sent. Only what the
ranges give is in memory together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

import pyarrow as pa

from site_agent.engine import EpochResult
from site_agent.tasks.spec import WindowSpec
from site_agent.tasks.views import Rows

Run = Callable[[str, Rows], Awaitable[EpochResult]]
"""Runs a statement over views; views that are missing are without rows."""


@dataclass(slots=True)
class OverRanges:
    """One close of windows.

    Args:
        window: says what is computed.
        run: see `Run`; it may raise EngineError.
    """

    window: WindowSpec
    run: Run
    _found: dict[str, list[pa.Table]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    async def add(self, closed: Rows) -> None:
        """Take the rows of one range."""
        if not closed:
            return
        self._seen |= closed.keys()
        for item in self.window.ranges:
            found = self._found.setdefault(item.view, [])
            result = await self.run(item.sql, closed)
            # The first one says the columns, with rows or without.
            if result.table.num_rows or not found:
                found.append(result.table)

    async def result(self) -> EpochResult | None:
        """The results; None: no rows came that can give one."""
        if not self._can_match(self._seen):
            return None
        rows = {view: pa.concat_tables(tables, promote_options="permissive") for view, tables in self._found.items()}
        return await self.run(self.window.over_ranges_sql, rows)

    def _can_match(self, seen: Collection[str]) -> bool:
        return bool(seen) and all(view.name in seen for view in self.window.views if view.required)
