"""Islands against their definition, in any order and taken together in any way."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.tasks.islands import islands_of, of_keys, with_islands
from site_agent.tasks.spec import SessionSpec
from tests.unit.site_agent.tasks.sessions import WINDOW, Partial, partials_of, sessions_of, summed, table_of

SPEC = WINDOW.sessions
partials = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12), st.sampled_from(["a", "b", None])).map(
        lambda found: (found[0], found[0] + found[1], found[2], 1)
    ),
    max_size=25,
)


def together(rows: pa.Table) -> pa.Table:
    assert SPEC is not None
    return summed(with_islands(rows, islands_of(rows, "_window_start", SPEC), "_window_start", SPEC))


@given(partials, st.data())
def test_touching_partials_of_a_key_are_one_session_in_any_order(rows: list[Partial], data: st.DataObject) -> None:
    wanted = sessions_of(rows)
    shuffled = data.draw(st.permutations(rows))
    assert partials_of(together(table_of(shuffled))) == wanted

    cut = data.draw(st.integers(0, len(rows)))
    first, second = together(table_of(shuffled[:cut])), together(table_of(shuffled[cut:]))
    assert partials_of(together(pa.concat_tables([second, first]))) == wanted


def test_a_gap_that_is_just_reached_joins_and_a_microsecond_more_does_not() -> None:
    assert partials_of(together(table_of([(0, 10, "a", 1), (10, 20, "a", 2)]))) == [(0, 20, "a", 3)]
    assert partials_of(together(table_of([(0, 10, "a", 1), (11, 20, "a", 2)]))) == [(0, 10, "a", 1), (11, 20, "a", 2)]


def test_a_long_session_swallows_later_ones_that_end_before_it() -> None:
    assert partials_of(together(table_of([(0, 90, "a", 1), (5, 6, "a", 2), (50, 60, "a", 4)]))) == [(0, 90, "a", 7)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.5, float("nan"), float("nan"), None, None, 0.0]),
        pa.array([{"x": 1}, {"x": None}, {"x": None}, None, None, {"x": 2}]),
        pa.array([[1], [1, 2], [1, 2], None, None, []]),
        pa.array([b"1", b"2", b"2", None, None, b""]),
        pa.array([1, 2, 2, None, None, 3], pa.decimal128(10, 2)),
    ],
)
def test_keys_are_equal_as_in_spark(values: pa.Array) -> None:
    """The second and third are equal, and so are the NULLs."""
    starts = pa.array([0] * 6, pa.timestamp("us", tz="UTC"))
    ends = pa.array([10, 20, 30, 40, 50, 60], pa.timestamp("us", tz="UTC"))
    rows = pa.table({"s": starts, "e": ends, "k": values, "all": ["same"] * 6})

    found = islands_of(rows, "s", SessionSpec("e", ("all", "k")))

    assert found.ends.tolist() == [10, 30, 30, 50, 50, 60]


@given(partials, st.integers(0, 25))
def test_rows_of_some_keys_are_all_there(rows: list[Partial], cut: int) -> None:
    assert SPEC is not None
    some = table_of(rows[:cut])
    found = of_keys(table_of(rows), some, SPEC.keys)
    keys = {row[2] for row in rows[:cut]}
    assert found.tolist() == [row[2] in keys for row in rows]
