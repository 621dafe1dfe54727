from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from selat.convert.times import to_datetime, to_us


@given(st.integers(-(10**15), 7 * 10**15))
def test_an_instant_survives_the_wire(us: int) -> None:
    assert to_us(to_datetime(us)) == us
