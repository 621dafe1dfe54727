from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.channels.manifest import END_OF_TIME_US
from site_agent.port.watermark import InputWatermark, port_watermark

times = st.integers(0, 1000)
inputs = st.lists(
    st.builds(InputWatermark, watermark_us=st.none() | times, idle=st.booleans(), ended=st.booleans()), max_size=6
)
previous = st.none() | times
ENDED = InputWatermark(7, ended=True)


def active(watermark_us: int | None) -> InputWatermark:
    return InputWatermark(watermark_us)


def idle(watermark_us: int | None) -> InputWatermark:
    return InputWatermark(watermark_us, idle=True)


@pytest.mark.parametrize(
    ("before", "says", "after"),
    [
        (None, [], None),
        (5, [], 5),
        (None, [active(3), active(9)], 3),
        (None, [active(None), active(9)], None),
        (5, [active(None), active(9)], 5),
        (5, [active(3)], 5),
        (None, [idle(3), active(9)], 9),
        (None, [idle(None), active(9)], 9),
        (None, [idle(3), idle(9), idle(None)], 9),
        (None, [idle(None)], None),
        (None, [idle(3), active(None)], None),
        (None, [ENDED, active(9)], 9),
        (None, [ENDED, idle(9)], 9),
        (4, [ENDED, idle(None)], 4),
        (4, [ENDED, ENDED], END_OF_TIME_US),
    ],
)
def test_cases(before: int | None, says: list[InputWatermark], after: int | None) -> None:
    assert port_watermark(before, says) == after


@given(before=previous, says=inputs)
def test_it_never_goes_back(before: int | None, says: list[InputWatermark]) -> None:
    after = port_watermark(before, says)
    assert before is None or (after is not None and after >= before)


@given(before=previous, says=inputs)
def test_it_never_passes_a_channel_that_is_waited_for(before: int | None, says: list[InputWatermark]) -> None:
    after = port_watermark(before, says)
    if after is not None and after != before:
        waited_for = [item.watermark_us for item in says if not item.idle and not item.ended]
        assert all(watermark_us is not None and after <= watermark_us for watermark_us in waited_for)


@given(before=previous, says=inputs)
def test_it_never_passes_what_some_live_channel_said(before: int | None, says: list[InputWatermark]) -> None:
    after = port_watermark(before, says)
    live = [item for item in says if not item.ended]
    if live and after is not None and after != before:
        assert after in {item.watermark_us for item in live}


@given(before=previous, says=inputs, data=st.data())
def test_order_does_not_matter(before: int | None, says: list[InputWatermark], data: st.DataObject) -> None:
    assert port_watermark(before, data.draw(st.permutations(says))) == port_watermark(before, says)


@given(before=previous, says=inputs, step=st.integers(1, 100), data=st.data())
def test_a_channel_that_advances_never_holds_the_port_back(
    before: int | None, says: list[InputWatermark], step: int, data: st.DataObject
) -> None:
    if not says:
        return
    at = data.draw(st.integers(0, len(says) - 1))
    old = says[at]
    further = InputWatermark((old.watermark_us or 0) + step, old.idle, old.ended)
    moved = [*says[:at], further, *says[at + 1 :]]
    least = -(2**63)
    now, later = port_watermark(before, says), port_watermark(before, moved)
    assert (least if later is None else later) >= (least if now is None else now)
