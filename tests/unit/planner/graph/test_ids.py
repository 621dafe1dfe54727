"""Ids are printed and read in one place, and have no site."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.graph.ids import TaskId, VertexId, log_fields

NAMES = st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True)
TASKS = st.builds(TaskId, NAMES, NAMES, st.integers(0, 10**6), st.booleans(), st.integers(0, 99))


@given(TASKS)
def test_an_id_is_read_as_it_was_printed(task: TaskId) -> None:
    assert TaskId.parse(str(task)) == task
    assert VertexId.parse(str(task.vertex)) == task.vertex


@given(TASKS, TASKS)
def test_tasks_that_differ_have_names_that_differ(one: TaskId, other: TaskId) -> None:
    assert (one == other) == (str(one) == str(other))


def test_ids_as_people_see_them() -> None:
    first = TaskId.of("q-0001-a1b2c3", VertexId("s1", 2))
    assert str(first) == "q-0001-a1b2c3.s1.p2"
    assert str(first._replace(generation=1)) == "q-0001-a1b2c3.s1.p2.g1"
    assert str(TaskId.of("q-0001-a1b2c3", VertexId("m1"), derived=True)) == "q-0001-a1b2c3.m1.d0"
    assert f"{first.vertex}" == "s1.p2"


@pytest.mark.parametrize(
    "text", ["", "q-1", "q-1.s1.us", "q-1.s1.p", "q-1.s1.p0.g0", "q-1.s1.p0.", "q/s1.p0", "q.s.p1\n"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no id of a task"):
        TaskId.parse(text)
    assert log_fields(text) == {}


def test_lines_of_a_log_have_the_parts_of_an_id() -> None:
    assert log_fields("q-0001-a1b2c3.s1.p2") == {"query": "q-0001-a1b2c3", "stage": "s1"}
