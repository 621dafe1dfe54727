"""The rows and groups that a combining task holds: nothing is lost or doubled, whatever is taken."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.tasks.groups import WindowGroups
from site_agent.tasks.held import EVERYTHING_US, HeldGroups, numbers_of, sorted_by_key, without_numbers
from site_agent.tasks.spec import ViewSpec, WindowSpec
from tests.unit.site_agent.fakes import TIMESTAMP

WINDOW = WindowSpec("w", 20, 10, (ViewSpec("input"),))
Row = tuple[int, Any, int]


def table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "w": pa.array([start for start, _, _ in rows], TIMESTAMP),
            "k": pa.array([key for _, key, _ in rows], pa.string()),
            "n": pa.array([count for _, _, count in rows], pa.int64()),
            "_group": pa.array([start * 100 + len(key or "") for start, key, _ in rows], pa.int64()),
        }
    )


def counted(*tables: pa.Table | None) -> Counter[Row]:
    rows = [row for one in tables if one is not None for row in one.to_pylist()]
    return Counter((int(r["w"].timestamp() * 1e6), r["k"], r["n"]) for r in rows)


rows = st.lists(
    st.tuples(st.sampled_from([0, 10, 20, 30]), st.none() | st.sampled_from(["", "a", "b", "bb", "ccc"]), st.just(1)),
    max_size=12,
)
steps = st.lists(
    st.tuples(st.just("add"), rows)
    | st.tuples(st.just("end"), st.tuples(st.integers(0, 60), rows))
    | st.tuples(st.sampled_from(["take", "close", "idle", "drop"]), st.integers(0, 60)),
    max_size=12,
)


@given(steps)
def test_what_is_taken_and_what_is_left_is_what_came(steps: list[tuple[str, Any]]) -> None:
    held, came, out, closed_us = HeldGroups(WINDOW), Counter[Row](), Counter[Row](), -1
    for what, value in steps:
        if what == "add":
            late = held.add(table(value))
            fresh = [row for row in value if row[0] + 20 > closed_us]
            assert late == len(value) - len(fresh)
            came.update(fresh)
        elif what == "end":
            too_late = Counter(row for row in value[1] if row[0] + 20 <= closed_us)
            closed, closing_us = closed_us, max(closed_us, value[0])
            closing, dropped = held.add_open(table(value[1]), closing_us)
            assert dropped == too_late.total()
            assert counted(closing) == Counter(r for r in value[1] if closed < r[0] + 20 <= closing_us)
            came.update(Counter(value[1]) - too_late)
            out.update(counted(closing, held.closing(closing_us)))
            held.advance(closing_us)
            closed_us = closing_us
        elif what == "take":
            for window in held.windows:
                counts = [min(value % 3, c.held) for c in window.groups.classes()]
                numbers = held.chosen(window.end_us, counts)
                assert len(numbers) == sum(counts)
                taken = held.take(window.end_us, numbers)
                assert taken is None or set(numbers_of(taken)) == set(numbers)
                out.update(counted(taken))
        elif what == "drop":
            rest = held.closing(EVERYTHING_US)
            numbers = numbers_of(rest)[: value % 5] if rest is not None else np.empty(0, np.int64)
            before = counted(rest)
            held.drop(numbers)
            out.update(before - counted(held.closing(EVERYTHING_US)))
        elif what == "idle":
            out.update(counted(held.closing(EVERYTHING_US)))
            held.clear()
        else:
            out.update(counted(held.closing(value)))
            held.advance(value)
            closed_us = max(closed_us, value)
        left = held.closing(EVERYTHING_US)
        assert came - out == counted(left)
        for window in held.windows:
            rows_of_it = [row for row in counted(left) if row[0] + 20 == window.end_us]
            assert window.groups.held == len({len(key or "") for _, key, _ in rows_of_it})


@pytest.mark.parametrize(
    "keys", [["b", "d", "a", "c", None], [2.5, 4.5, 1.5, 3.5, float("nan")], [[2], [4], [1], [3], []]]
)
def test_the_first_by_their_keys_are_chosen(keys: list[Any]) -> None:
    """Of keys that have no order, any."""
    rows = pa.table({"w": pa.array([0] * 5, TIMESTAMP), "k": keys, "_group": pa.array([7, 9, 3, 5, 1], pa.int64())})
    held = HeldGroups(WINDOW)
    held.add(rows)
    chosen = held.chosen(20, [2]).tolist()
    assert len(chosen) == 2
    if not isinstance(keys[0], list):
        assert chosen == [3, 7]
        names = sorted_by_key(without_numbers(rows))["k"].to_pylist()
        assert names[:4] == sorted(keys[:4])


def test_groups_rise_in_class_with_their_updates() -> None:
    groups = WindowGroups()
    one, both = np.array([5], np.int64), np.array([3, 5], np.int64)
    for numbers in (one, both, one, one):
        groups.update(numbers)
    assert [c.held for c in groups.classes()] == [1, 0, 1]
    assert groups.of_class(0).tolist() == [3]
    assert groups.of_class(2).tolist() == [5]
    groups.sent(one)
    assert (groups.seen, groups.held) == (2, 1)
    groups.update(one)
    assert groups.again_per_epoch > 0
    assert groups.held == 2


def test_a_curve_says_how_much_had_come_at_a_time() -> None:
    groups = WindowGroups()
    for at_us in range(-4, 0):
        groups.update(np.array([at_us], np.int64))
        groups.mark(at_us)
    curve = groups.curve()
    assert [curve.share(at_us) for at_us in (-9, -4, -3, -1, 5)] == [0.25, 0.25, 0.5, 1.0, 1.0]
    assert WindowGroups().curve().share(0) is None
