"""Two channels of the same windows meet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.handover.meeting import Said, is_behind, meeting_epoch, next_meeting

Epoch = tuple[frozenset[int], int | None, bool]
"""It has the ends of the windows of which it has rows, what its watermark ends, and whether these are all out."""


@st.composite
def channels(draw: st.DrawFn) -> list[Epoch]:
    """Draw a channel of windows that end at 1, 2, 3, ...: some at once, some in several epochs, some without rows."""
    made: list[Epoch] = []
    out: int | None = None
    for _ in range(draw(st.integers(0, 6))):
        step = draw(st.integers(0, 3))
        if not step:
            made.append((frozenset(), out, True))
            continue
        closing = range((out or 0) + 1, (out or 0) + step + 1)
        rows = frozenset(end for end in closing if draw(st.booleans()))
        made += [(rows, out, False)] * (draw(st.integers(0, 2)) if rows else 0)
        out = closing[-1]
        made.append((rows, out, True))
    return made


def said(channel: list[Epoch], first: int) -> list[Said]:
    numbered = list(enumerate(channel))[first:]
    return [Said(number, end, end, whole) for number, (_, end, whole) in numbered]


def is_exact(channel: list[Epoch], epoch: int, end: int) -> bool:
    """Return whether all rows of windows that end by then are in epochs up to this one, and no others."""
    before = {window for rows, _, _ in channel[: epoch + 1] for window in rows}
    after = {window for rows, _, _ in channel[epoch + 1 :] for window in rows}
    return all(window <= end for window in before) and all(window > end for window in after)


@given(channels(), st.integers(0, 6), st.integers(1, 20))
def test_behind_the_epoch_are_exactly_the_windows_that_are_out(channel: list[Epoch], first: int, end: int) -> None:
    found = meeting_epoch(said(channel, first), end)
    if found is not None:
        assert is_exact(channel, found, end)


@given(channels(), st.integers(1, 20))
def test_it_is_found_where_it_is(channel: list[Epoch], end: int) -> None:
    there = [number for number, (_, known, _) in enumerate(channel) if known == end]
    assert (meeting_epoch(said(channel, 0), end) is not None) == bool(there)


@given(channels(), st.integers(0, 6), st.none() | st.integers(1, 10), st.integers(1, 20))
def test_who_publishes_up_to_the_next_meeting_meets(
    channel: list[Epoch], first: int, end: int | None, upto: int
) -> None:
    known = said(channel, first)
    found = next_meeting(known, end, upto)
    if found is None:
        return
    assert found.end_us is not None
    assert found.end_us <= upto
    assert end is None or found.end_us > end
    assert meeting_epoch(known, found.end_us) is not None


def test_a_channel_is_behind_when_windows_are_still_to_come() -> None:
    said_so = [Said(0, None, None, True), Said(1, 12, 10, True)]
    assert is_behind(said_so[:1], 10)
    assert is_behind(said_so, 20)
    assert not is_behind(said_so, 10)
    assert not is_behind(said_so, None)
    assert is_behind([], 10)
