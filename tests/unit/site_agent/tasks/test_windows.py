from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from site_agent.tasks.windows import OpenWindows

LENGTH_US = 10


def rows(*starts: int) -> pa.Table:
    return pa.table({"_window_start": pa.array(starts, pa.timestamp("us", tz="UTC")), "n": list(range(len(starts)))})


def starts_of(table: pa.Table | None) -> list[int]:
    return sorted(table.column("_window_start").cast(pa.int64()).to_pylist()) if table is not None else []


def test_a_window_closes_when_the_watermark_reaches_its_end() -> None:
    windows = OpenWindows("_window_start", LENGTH_US, LENGTH_US)
    windows.add([rows(0, 10, 20)])

    assert windows.close(9) is None
    assert starts_of(windows.close(10)) == [0]
    assert starts_of(windows.close(29)) == [10]
    assert starts_of(windows.table()) == [20]


def test_rows_of_emitted_windows_are_dropped_and_counted() -> None:
    windows = OpenWindows("_window_start", LENGTH_US, LENGTH_US, closed_us=20)

    assert windows.add([rows(0, 10, 20), rows(10, 30)]) == 3
    assert starts_of(windows.table()) == [20, 30]


def test_the_watermark_does_not_go_back() -> None:
    windows = OpenWindows("_window_start", LENGTH_US, LENGTH_US)
    windows.close(30)
    windows.add([rows(30)])

    assert windows.close(15) is None
    assert windows.closed_us == 30


def test_boundaries_are_crossed_once() -> None:
    windows = OpenWindows("_window_start", LENGTH_US, LENGTH_US)

    assert not windows.crosses_boundary(None)
    assert windows.crosses_boundary(5)
    windows.close(5)
    assert not windows.crosses_boundary(9)
    assert windows.crosses_boundary(10)


def test_sliding_windows_end_every_slide() -> None:
    windows = OpenWindows("_window_start", LENGTH_US, 5)
    windows.add([rows(-5, 0, 5)])
    windows.close(4)

    assert windows.crosses_boundary(5)
    assert starts_of(windows.close(5)) == [-5]
    assert not windows.crosses_boundary(9)
    assert windows.crosses_boundary(10)
    assert starts_of(windows.close(12)) == [0]
    assert windows.add([rows(0, 5)]) == 1
    assert starts_of(windows.close(15)) == [5, 5]


def test_replacing_rows_keeps_closing_right() -> None:
    windows = OpenWindows("_window_start", LENGTH_US, LENGTH_US)
    windows.add([rows(0, 0, 10)])
    windows.replace(rows(0, 10))

    assert windows.rows == 2
    assert starts_of(windows.close(10)) == [0]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 9).map(lambda w: w * LENGTH_US), max_size=5), st.integers(0, 120)),
        max_size=12,
    )
)
def test_every_row_is_emitted_once_kept_or_counted_late(steps: list[tuple[list[int], int]]) -> None:
    windows = OpenWindows("_window_start", LENGTH_US, LENGTH_US)
    given_rows = emitted = late = 0
    watermark = -1
    for starts, proposed in steps:
        given_rows += len(starts)
        late += windows.add([rows(*starts)])
        watermark = max(watermark, proposed)
        closed = windows.close(watermark)
        emitted += closed.num_rows if closed is not None else 0
        assert all(start + LENGTH_US <= watermark for start in starts_of(closed))
        assert all(start + LENGTH_US > watermark for start in starts_of(windows.table()))
    assert emitted + late + windows.rows == given_rows


def test_windows_that_begin_before_the_beginning_are_left_out() -> None:
    windows = OpenWindows("_window_start", LENGTH_US, 5)
    windows.add([rows(5, 10, 15)])
    windows.begin_at(12)
    assert windows.add([rows(10, 11, 12, 20)]) == 2
    assert starts_of(windows.table()) == [12, 15, 20]
    # As if all before it were emitted: nothing closes earlier, and it does not go back.
    assert not windows.crosses_boundary(19)
    assert starts_of(windows.close(25)) == [12, 15]
    windows.begin_at(3)
    assert starts_of(windows.table()) == [20]


@given(st.lists(st.integers(0, 60), max_size=20), st.integers(0, 60), st.integers(0, 80))
def test_from_the_beginning_on_everything_comes_out_as_ever(starts: list[int], begin: int, watermark: int) -> None:
    late, ever = (OpenWindows("_window_start", LENGTH_US, LENGTH_US) for _ in range(2))
    late.begin_at(begin)
    for windows in (late, ever):
        windows.add([rows(*starts)])
    wanted = [start for start in starts_of(ever.close(watermark)) if start >= begin]
    assert starts_of(late.close(watermark)) == wanted
