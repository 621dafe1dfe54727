"""Views of a merge: rows wait for their window in each of them, and all close at one watermark."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from site_agent.engine import ArrowScan, EmptyScan, Field
from site_agent.tasks.checkpoint import Checkpoint, CheckpointStore
from site_agent.tasks.spec import ViewSpec, WindowSpec
from site_agent.tasks.views import OpenViews, scans_of
from tests.unit.site_agent.tasks.older_state import save_older

LENGTH_US = 10
JOIN = WindowSpec("_window_start", LENGTH_US, LENGTH_US, (ViewSpec("input"), ViewSpec("t1", required=False)))
VIEWS = tuple(view.name for view in JOIN.views)


def rows(*starts: int) -> pa.Table:
    return pa.table({"_window_start": pa.array(starts, pa.timestamp("us", tz="UTC"))})


def starts_of(tables: dict[str, pa.Table], view: str) -> list[int]:
    return sorted(tables[view].column("_window_start").cast(pa.int64()).to_pylist()) if view in tables else []


def close(views: OpenViews, watermark_us: int) -> dict[str, pa.Table]:
    closed = dict(views.closing(watermark_us))
    views.advance(watermark_us)
    return closed


def open_rows(views: OpenViews) -> dict[str, pa.Table]:
    found = {view: windows.fresh() for view, windows in views.windows.items()}
    return {view: rows for view, rows in found.items() if rows is not None}


def test_rows_of_every_view_close_together() -> None:
    views = OpenViews(JOIN)
    views.add("input", rows(0, 10))
    views.add("t1", rows(10, 20, 20))

    assert (views.rows, views.crosses_boundary(20)) == (5, True)
    closed = close(views, 20)
    assert (starts_of(closed, "input"), starts_of(closed, "t1")) == ([0, 10], [10])
    assert starts_of(open_rows(views), "t1") == [20, 20]
    assert open_rows(views).keys() == {"t1"}
    assert views.add("input", rows(0, 10, 20)) == 2


def test_a_required_view_without_rows_can_give_no_result() -> None:
    views = OpenViews(JOIN)

    assert not views.can_match({})
    assert not views.can_match({"t1": rows(0)})
    assert views.can_match({"input": rows(0)})


def test_a_view_without_rows_still_has_its_columns() -> None:
    columns = {"input": (Field("a", "INT"),), "t1": (Field("b", "STRING"),)}
    table = rows(0)

    assert scans_of({"input": table}, columns) == (ArrowScan(table), {"t1": EmptyScan((Field("b", "STRING"),))})


def test_a_view_that_the_merge_has_not_is_a_defect() -> None:
    with pytest.raises(KeyError):
        OpenViews(JOIN).add("t9", rows(0))


steps = st.lists(
    st.tuples(
        st.sampled_from(VIEWS),
        st.lists(st.integers(0, 9).map(lambda w: w * LENGTH_US), max_size=4),
        st.integers(0, 120),
        st.booleans(),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(steps)
def test_it_does_what_a_list_of_rows_does_also_over_checkpoints(
    steps: list[tuple[str, list[int], int, bool]],
) -> None:
    """The model: one list of open window starts for each view."""
    model: dict[str, list[int]] = {view: [] for view in VIEWS}
    views = OpenViews(JOIN)
    watermark = -1
    with TemporaryDirectory() as directory:
        for number, (view, starts, proposed, restarted) in enumerate(steps):
            kept = [s for s in starts if watermark < 0 or s + LENGTH_US > watermark]
            assert views.add(view, rows(*starts)) == len(starts) - len(kept)
            model[view] += kept
            watermark = max(watermark, proposed)
            closed = close(views, watermark)
            for name in VIEWS:
                due = [s for s in model[name] if s + LENGTH_US <= watermark]
                model[name] = [s for s in model[name] if s + LENGTH_US > watermark]
                assert starts_of(closed, name) == sorted(due)
            if restarted:
                save_older(Path(directory), Checkpoint(number, closed_us=views.closed_us), open_rows(views))
                saved = CheckpointStore(Path(directory)).load_state()
                views = OpenViews(JOIN, closed_us=saved.checkpoint.closed_us)
                assert all(views.add(name, table) == 0 for name, table in saved.rows.items())
            assert {name: starts_of(open_rows(views), name) for name in VIEWS} == {
                name: sorted(open_) for name, open_ in model.items()
            }
