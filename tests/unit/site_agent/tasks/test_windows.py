from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from site_agent.tasks.spec import ViewSpec, WindowSpec
from site_agent.tasks.windows import OpenWindows

LENGTH_US = 10
VIEWS = (ViewSpec("input"),)
TUMBLING = WindowSpec("_window_start", LENGTH_US, LENGTH_US, VIEWS)
SLIDING = WindowSpec("_window_start", LENGTH_US, 5, VIEWS)
"""Its rows are of windows, as those of plans from before there were panes."""
PANES = replace(SLIDING, panes=True)


def rows(*starts: int) -> pa.Table:
    return pa.table({"_window_start": pa.array(starts, pa.timestamp("us", tz="UTC")), "n": list(range(len(starts)))})


def starts_of(table: pa.Table | None) -> list[int]:
    return sorted(table.column("_window_start").cast(pa.int64()).to_pylist()) if table is not None else []


def close(windows: OpenWindows, watermark_us: int) -> pa.Table | None:
    closed = windows.closing(watermark_us)
    windows.advance(watermark_us)
    return closed


def test_a_window_closes_when_the_watermark_reaches_its_end() -> None:
    windows = OpenWindows(TUMBLING)
    windows.add([rows(0, 10, 20)])

    assert close(windows, 9) is None
    assert starts_of(close(windows, 10)) == [0]
    assert starts_of(close(windows, 29)) == [10]
    assert starts_of(windows.fresh()) == [20]


def test_rows_of_emitted_windows_are_dropped_and_counted() -> None:
    windows = OpenWindows(TUMBLING, closed_us=20)

    assert windows.add([rows(0, 10, 20), rows(10, 30)]) == 3
    assert starts_of(windows.fresh()) == [20, 30]


def test_the_watermark_does_not_go_back() -> None:
    windows = OpenWindows(TUMBLING)
    close(windows, 30)
    windows.add([rows(30)])

    assert close(windows, 15) is None
    assert windows.closed_us == 30


def test_boundaries_are_crossed_once() -> None:
    windows = OpenWindows(TUMBLING)

    assert not windows.crosses_boundary(None)
    assert windows.crosses_boundary(5)
    close(windows, 5)
    assert not windows.crosses_boundary(9)
    assert windows.crosses_boundary(10)


def test_sliding_windows_end_every_slide() -> None:
    windows = OpenWindows(SLIDING)
    windows.add([rows(-5, 0, 5)])
    close(windows, 4)

    assert windows.crosses_boundary(5)
    assert starts_of(close(windows, 5)) == [-5]
    assert not windows.crosses_boundary(9)
    assert windows.crosses_boundary(10)
    assert starts_of(close(windows, 12)) == [0]
    assert windows.add([rows(0, 5)]) == 1
    assert starts_of(close(windows, 15)) == [5, 5]


def test_replacing_rows_keeps_closing_right() -> None:
    windows = OpenWindows(TUMBLING)
    windows.add([rows(0, 0, 10)])
    windows.replace_fresh(rows(0, 10))

    assert windows.rows == 2
    assert starts_of(close(windows, 10)) == [0]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 9).map(lambda w: w * LENGTH_US), max_size=5), st.integers(0, 120)),
        max_size=12,
    )
)
def test_every_row_is_emitted_once_kept_or_counted_late(steps: list[tuple[list[int], int]]) -> None:
    windows = OpenWindows(TUMBLING)
    given_rows = emitted = late = 0
    watermark = -1
    for starts, proposed in steps:
        given_rows += len(starts)
        late += windows.add([rows(*starts)])
        watermark = max(watermark, proposed)
        closed = close(windows, watermark)
        emitted += closed.num_rows if closed is not None else 0
        assert all(start + LENGTH_US <= watermark for start in starts_of(closed))
        assert all(start + LENGTH_US > watermark for start in starts_of(windows.fresh()))
    assert emitted + late + windows.rows == given_rows


def test_windows_that_begin_before_the_beginning_are_left_out() -> None:
    windows = OpenWindows(SLIDING)
    windows.add([rows(5, 10, 15)])
    windows.begin_at(12)
    assert windows.add([rows(10, 11, 12, 20)]) == 2
    assert starts_of(windows.fresh()) == [12, 15, 20]
    # As if all before it were emitted: nothing closes earlier, and it does not go back.
    assert not windows.crosses_boundary(19)
    assert starts_of(close(windows, 25)) == [12, 15]
    windows.begin_at(3)
    assert starts_of(windows.fresh()) == [20]


@given(st.lists(st.integers(0, 60), max_size=20), st.integers(0, 60), st.integers(0, 80))
def test_from_the_beginning_on_everything_comes_out_as_ever(starts: list[int], begin: int, watermark: int) -> None:
    late, ever = (OpenWindows(TUMBLING) for _ in range(2))
    late.begin_at(begin)
    for windows in (late, ever):
        windows.add([rows(*starts)])
    wanted = [start for start in starts_of(close(ever, watermark)) if start >= begin]
    assert starts_of(close(late, watermark)) == wanted


def test_a_row_of_a_pane_comes_once_for_each_window_that_it_is_in() -> None:
    windows = OpenWindows(PANES)
    windows.add([rows(0, 5, 10)])

    assert close(windows, 4) is None
    assert starts_of(close(windows, 5)) == [-5]
    assert windows.rows == 3
    assert starts_of(close(windows, 12)) == [0, 0]
    assert starts_of(windows.fresh()) == [5, 10]
    assert starts_of(close(windows, 10**6)) == [5, 5, 10]
    assert windows.rows == 0


def test_a_late_row_of_a_pane_still_counts_for_the_windows_that_are_open() -> None:
    windows = OpenWindows(PANES, closed_us=10)

    # The first is in none that is open, the second in one of two, the third in two.
    assert windows.add([rows(0, 5, 10)]) == 2
    assert starts_of(close(windows, 20)) == [5, 5, 10]


def test_panes_of_windows_that_are_left_out() -> None:
    windows = OpenWindows(PANES)
    windows.add([rows(0, 5, 10)])
    windows.begin_at(5)

    assert starts_of(close(windows, 20)) == [5, 5, 10]


def test_rows_of_panes_keep_their_columns() -> None:
    windows = OpenWindows(replace(PANES, length_us=10_000, slide_us=5_000))
    milliseconds = pa.timestamp("ms", tz="UTC")
    windows.add([pa.table({"n": [7], "_window_start": pa.array([0], milliseconds), "k": ["x"]})])
    closed = close(windows, 5_000)
    assert closed is not None
    assert closed.schema.names == ["n", "_window_start", "k"]
    assert closed.schema.field("_window_start").type == milliseconds


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 12), max_size=5), st.integers(0, 90)), max_size=12),
    st.sampled_from([(10, 5, 0), (15, 5, 3), (21, 3, 0), (10, 10, 0), (10, 4, 0), (10, 4, 3), (9, 6, 5), (7, 5, 1)]),
    st.integers(0, 11),
)
def test_panes_give_what_rows_of_windows_give(
    steps: list[tuple[list[int], int]], window: tuple[int, int, int], crash: int
) -> None:
    """Also when the state is saved, windows are closed after that, and the rows since then are read again."""
    length_us, slide_us, offset_us = window
    spec = replace(SLIDING, length_us=length_us, slide_us=slide_us, offset_us=offset_us)
    pane_us, first_us = spec.pane_us, offset_us % spec.pane_us
    whole, panes = OpenWindows(spec), OpenWindows(replace(spec, panes=slide_us != length_us))
    saved, since = panes.fresh(), list[pa.Table]()
    for number, (places, watermark) in enumerate(steps):
        starts = [first_us + place * pane_us for place in places]
        whole.add(
            [
                rows(
                    *(
                        s
                        for start in starts
                        for s in range(start - length_us + 1, start + 1)
                        if not (s - offset_us) % slide_us
                    )
                )
            ]
        )
        since.append(rows(*starts))
        panes.add(since[-1:])
        assert starts_of(close(panes, watermark)) == starts_of(close(whole, watermark))
        if number == crash:
            panes = OpenWindows(replace(spec, panes=slide_us != length_us), closed_us=panes.closed_us)
            panes.add([*([] if saved is None else [saved]), *since])
        elif number % 3 == 0:
            saved, since = panes.fresh(), []


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 12), max_size=5), st.integers(0, 90)), max_size=12),
    st.sampled_from([(10, 5), (15, 5), (21, 3), (12, 1)]),
    st.integers(0, 11),
)
def test_cumulative_windows_have_all_panes_since_their_start(
    steps: list[tuple[list[int], int]], window: tuple[int, int], crash: int
) -> None:
    """They give the same as rows of each window; also when the state is saved, and rows are read again."""
    length_us, step_us = window
    spec = replace(SLIDING, length_us=length_us, slide_us=step_us)
    cumulative = replace(spec, panes=True, cumulates=True)
    whole, panes = OpenWindows(spec), OpenWindows(cumulative)
    saved, since = panes.fresh(), list[pa.Table]()
    for number, (places, watermark) in enumerate(steps):
        starts = [place * step_us for place in places]
        ends = [e for s in starts for e in range(s + step_us, (s // length_us + 1) * length_us + 1, step_us)]
        whole.add([rows(*(end - length_us for end in ends))])
        since.append(rows(*starts))
        panes.add(since[-1:])
        assert panes.crosses_boundary(watermark) == whole.crosses_boundary(watermark)
        assert starts_of(close(panes, watermark)) == starts_of(close(whole, watermark))
        kept = panes.fresh()
        assert kept is None or min(starts_of(kept)) >= (panes.closed_us or 0) // length_us * length_us
        if number == crash:
            panes = OpenWindows(cumulative, closed_us=panes.closed_us)
            panes.add([*([] if saved is None else [saved]), *since])
        elif number % 3 == 0:
            saved, since = panes.fresh(), []


def test_cumulative_windows_of_which_rows_may_be_missing_are_left_out() -> None:
    """All that begin before, and none of those that begin then: the first of them ends a step later."""
    spec = replace(PANES, length_us=10, slide_us=5, cumulates=True)
    windows = OpenWindows(spec)
    assert spec.next_start_us(3) == 10
    windows.begin_at(10)
    windows.add([rows(0, 5, 10, 15)])
    assert starts_of(close(windows, 10)) == []
    assert starts_of(close(windows, 15)) == [5]
    assert starts_of(close(windows, 20)) == [10, 10]


DAY_US = 86_400_000_000
MONTHS = replace(SLIDING, length_us=31 * DAY_US, slide_us=31 * DAY_US, months=1)
FIRST_OF_MONTHS = (0, 31, 59, 90, 120, 151, 181)
"""The days of 1970 on which months begin."""


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 180), max_size=6), st.integers(0, 200)), max_size=10),
    st.integers(0, 9),
)
def test_a_month_closes_when_it_is_over(steps: list[tuple[list[int], int]], crash: int) -> None:
    """The instant 31 days before its end stands for a month."""
    windows, late_us = OpenWindows(MONTHS), 0
    out: list[int] = []
    kept: list[int] = []
    for number, (days, watermark) in enumerate(steps):
        ends = [next(first for first in FIRST_OF_MONTHS if first > day) * DAY_US for day in days if day < 181]
        kept += [end for end in ends if end > late_us]
        windows.add([rows(*(end - 31 * DAY_US for end in ends))])
        late_us = max(late_us, watermark * DAY_US)
        crossed = any(windows.closed_us is None or windows.closed_us < f * DAY_US <= late_us for f in FIRST_OF_MONTHS)
        assert windows.crosses_boundary(late_us) == (crossed or windows.closed_us is None)
        out += [start + 31 * DAY_US for start in starts_of(close(windows, late_us))]
        assert sorted(out) == sorted(end for end in kept if end <= late_us)
        if number == crash:
            saved = windows.fresh()
            windows = OpenWindows(MONTHS, closed_us=windows.closed_us)
            windows.add([] if saved is None else [saved])


def test_a_month_of_which_rows_may_be_missing_is_left_out() -> None:
    windows = OpenWindows(MONTHS)
    assert MONTHS.next_start_us(3 * DAY_US) == 31 * DAY_US
    windows.begin_at(31 * DAY_US)
    windows.add([rows(*((end - 31) * DAY_US for end in (31, 59)))])
    assert [start + 31 * DAY_US for start in starts_of(close(windows, 60 * DAY_US))] == [59 * DAY_US]
    assert (MONTHS.start_us(59 * DAY_US), MONTHS.first_open_us(60 * DAY_US)) == (31 * DAY_US, 59 * DAY_US)
