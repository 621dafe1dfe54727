"""A copy of some bins that gets more of them: from which epoch on which bins are there."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from site_agent.base.files import Files
from site_agent.router.readers import Readers, load_readers, save_readers

BINS = range(4)
steps = st.lists(st.tuples(st.integers(1, 5), st.sets(st.sampled_from(BINS))), max_size=4)


def widened(first: set[int], more: list[tuple[int, set[int]]]) -> tuple[Readers, list[set[int]]]:
    """Readers that wanted more bins one after the other, and by epoch the bins that the copy got."""
    readers, got = Readers("us", "q", bins=tuple(sorted(first))), []
    now = set(readers.bins) or set(BINS)
    for epochs, bins in more:
        got += [now] * epochs
        if readers.held_from(bins) is None:
            readers = readers.widened(bins, len(got))
            now = now | bins if bins else set(BINS)
    return readers, [*got, now]


@given(st.sets(st.sampled_from(BINS)), steps, st.sets(st.sampled_from(BINS)))
def test_bins_are_held_from_the_first_epoch_on_that_has_them_and_all_after_it(
    first: set[int], more: list[tuple[int, set[int]]], wanted: set[int]
) -> None:
    readers, got = widened(first, more)
    whole = readers.bins == ()
    there = [wanted <= bins if wanted else False for bins in got]
    held = readers.held_from(wanted)
    if wanted:
        expected = next((epoch for epoch in range(len(got)) if all(there[epoch:])), None)
        assert held == expected
    else:
        # All rows: of bins, or of none.
        assert (held is not None) == whole


def test_it_survives_a_restart(tmp_path: Path) -> None:
    readers = Readers("us", "q", bins=(1, 2)).joined("q.m1.p1", keeps=False).widened((3,), 7)
    save_readers(Files(), tmp_path, readers)
    assert load_readers(tmp_path) == readers
    assert (readers.held_from((1,)), readers.held_from((3,)), readers.held_from((4,))) == (0, 7, None)
