from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.sql.source import Source
from planner.values.errors import Position


def test_places_are_those_of_the_script() -> None:
    source = Source("ab\ncd", Position(3, 5))
    assert [source.position(i) for i in range(5)] == [
        Position(3, 5),
        Position(3, 6),
        Position(3, 7),
        Position(4, 1),
        Position(4, 2),
    ]
    assert source.place(1, 2) == Position(3, 6)
    assert source.place(2, 2) == Position(4, 2)


@given(st.text(alphabet="ab\n", max_size=30), st.data())
def test_offsets_and_places_agree(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    source = Source(text)
    position = source.position(offset)
    assert source.offset(position.line, position.column) == offset


def test_a_place_outside_has_no_offset() -> None:
    source = Source("ab\ncd")
    assert [source.offset(*place) for place in ((0, 0), (1, 4), (3, 1), (2, 4))] == [None] * 4
