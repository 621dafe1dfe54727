"""COMBINE: the partials of a source at this site in, each group of a window out once, when the window closes.

It is a merge whose results are partials again. What is different: a source that falls idle is not waited for by
those that read the partials, so all that is held leaves with the epoch that says so, and the windows stay open. That
epoch's manifest has how far the input was read by then: of rows that are read again after a crash, those before that
are out.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from site_agent.base.json import Json
from site_agent.port import Origin, PortBatch
from site_agent.tasks.context import TaskContext
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import WindowSpec
from site_agent.tasks.views import Rows

_RELEASED = "released"


class CombineTask(MergeTask):
    """The loop of a COMBINE stage at one site."""

    def __init__(self, context: TaskContext, window: WindowSpec) -> None:
        super().__init__(context, window)
        self._released: Mapping[str, int] = {}
        """By channel of the input: of the epochs before this one, no row is held."""

    def _restored_rows(self, rows: Rows) -> Rows:
        last = self._context.log.epochs.last_manifest
        self._released = _cursors(last.commit.get(_RELEASED)) if last is not None else {}
        saved = self._checkpoint.cursors
        # All rows were released at once: the checkpoint is older, or it has been saved since.
        older = bool(self._released) and all(saved[name] <= self._released.get(name, 0) for name in saved)
        return {} if older else rows

    def _is_out(self, origin: Origin) -> bool:
        return origin.epoch < self._released.get(origin.channel, 0)

    def _closed(self, batch: PortBatch) -> Rows:
        closed = super()._closed(batch)
        if not (batch.idle or batch.ended):
            return closed
        self._released = dict(batch.cursors)
        held = self._open.take()
        return {view: _together(closed.get(view), held.get(view)) for view in closed.keys() | held.keys()}

    def _commit(self, batch: PortBatch) -> dict[str, Json]:
        return {**super()._commit(batch), _RELEASED: dict(self._released)}


def _cursors(value: Json) -> dict[str, int]:
    return {k: v for k, v in value.items() if isinstance(v, int)} if isinstance(value, Mapping) else {}


def _together(*tables: pa.Table | None) -> pa.Table:
    return pa.concat_tables([table for table in tables if table is not None], promote_options="permissive")
