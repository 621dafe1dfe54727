"""Rows that are each joined with the newest version of another view: an ASOF JOIN.

Which version that is follows from keys and event times, so it is looked up here; Spark gets each row with its version,
by a number. Of the versions before the watermark only the newest of each key is of further use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.values.names import BIN_COLUMN, ROW_COLUMN
from planner.values.pairs import PairSide
from site_agent.state.runs import RunFile
from site_agent.tasks.islands import Instants
from site_agent.tasks.pairrows import AFTER_ALL_US, BEFORE_ALL_US, Needed, those_of
from site_agent.tasks.pairs import OpenPairs
from site_agent.tasks.spec import WindowSpec
from site_agent.tasks.versionrows import NULL, Numbers, numbers_of
from site_agent.tasks.views import OpenViews, Rows


class OpenVersions(OpenPairs):
    """The state of a merge that joins the rows of the second view with versions of the first."""

    def _found(self, watermark_us: int | None) -> Rows:
        before_us = BEFORE_ALL_US if self.closed_us is None else self.closed_us
        pairs = self._pairs
        rows, times = self._held(pairs.second)
        if watermark_us is None or rows is None:
            return {}
        new = (times >= before_us) & (times < watermark_us)
        rows, times = those_of(rows, new), times[new]
        if not rows.num_rows:
            return {}
        numbered = rows.append_column(ROW_COLUMN, pa.array(np.arange(rows.num_rows)))
        versions, since = self._held(pairs.first)
        if versions is None:
            return {pairs.second.view: numbered}
        # Among versions of one instant the last one counts: the greatest in its other columns.
        order = pc.sort_indices(versions, sort_keys=[(self._spec.column, "ascending"), *_others(versions)])
        versions, since = versions.take(order), since[order.to_numpy()]
        keys, wanted = numbers_of(versions, pairs.first, rows, pairs.second)
        places = newest(keys, since, wanted, times, strict=pairs.strict)
        found = np.flatnonzero(places >= 0)
        chosen = versions.take(pa.array(places[found])).append_column(ROW_COLUMN, pa.array(found))
        return {pairs.second.view: numbered} | ({pairs.first.view: chosen} if len(found) else {})

    def _let_go(self, closed_us: int) -> None:
        for side in (self._pairs.first, self._pairs.second):
            self._rows(side).let_go(Needed(closed_us, AFTER_ALL_US))

    def _held(self, side: PairSide) -> tuple[pa.Table | None, Instants]:
        view = self._rows(side)
        rows = view.held()
        return rows, np.zeros(0, np.int64) if rows is None else view.times(rows).begins


def newest(keys: Numbers, since: Instants, wanted: Numbers, times: Instants, *, strict: bool) -> Numbers:
    """The place of the newest version of each row, or -1 where it has none.

    Args:
        keys: numbers of the keys of the versions, in the order of their event times.
        since: the event times of the versions, ascending.
        wanted: numbers of the keys of the rows.
        times: their event times.
        strict: a version of the same instant does not count.
    """
    # By key, and within it by place, so by event time: the last place before the row's is that of its version.
    order = np.argsort(keys, kind="stable")
    before = np.searchsorted(since, times, side="left" if strict else "right")
    size = len(keys) + 1
    ends = np.searchsorted(keys[order] * size + order, wanted * size + before, side="left") - 1
    places = order[np.maximum(ends, 0)] if len(order) else np.zeros(len(wanted), np.int64)
    fits = (ends >= 0) & (wanted != NULL)
    if len(order):
        fits &= keys[places] == wanted
    return np.where(fits, places, -1)


def _others(versions: pa.Table) -> list[tuple[str, str]]:
    """The columns that order versions of one instant; nested ones have no order."""
    return [
        (field.name, "ascending")
        for field in versions.schema
        if field.name != BIN_COLUMN and not pa.types.is_nested(field.type)
    ]


def views_of(
    spec: WindowSpec, *, closed_us: int | None = None, runs: Mapping[str, Sequence[RunFile]] | None = None
) -> OpenViews:
    """The state of a merge, by what it waits for."""
    if spec.pairs is None:
        return OpenViews(spec, closed_us=closed_us, runs=runs)
    return (OpenVersions if spec.pairs.newest else OpenPairs)(spec, closed_us=closed_us, runs=runs)
