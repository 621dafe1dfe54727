"""Who is waited for, who is behind and who is left behind, against a plain reading of the rule."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from site_agent.channels.pace import Behind, ChannelReader, QueryReaders, ReaderCursors, Waiting, pressure

A_EU, B_EU, B_US = ChannelReader("eu", "a.m"), ChannelReader("eu", "b.m"), ChannelReader("us", "b.k")
A, B = QueryReaders("a", (A_EU,)), QueryReaders("b", (B_EU, B_US))
SHARED = ReaderCursors((A, B))


def test_one_query_waits_as_it_always_did() -> None:
    for size, waits in ((10, False), (11, True)):
        found = pressure([Waiting("", size, ("eu",))], retained_bytes=10, kept_behind_bytes=100)
        assert (found.waits, found.behind) == (waits, ())


def test_the_fastest_sets_the_pace() -> None:
    fast, slow = Waiting("a", 4, ("eu",)), Waiting("b", 60, ("us",))
    found = pressure([fast, slow], retained_bytes=10, kept_behind_bytes=50)
    assert (found.waits, found.pace) == (False, fast)
    assert found.behind == (Behind("b", 60, ("us",)),)


def test_beyond_both_budgets_a_query_is_left_behind_and_the_producer_waits_for_that() -> None:
    fast, slow = Waiting("a", 4, ("eu",)), Waiting("b", 61, ("us",))
    found = pressure([fast, slow], retained_bytes=10, kept_behind_bytes=50)
    assert (found.waits, [b.left for b in found.behind]) == (True, [True])
    ended = pressure([fast, slow], retained_bytes=10, kept_behind_bytes=50, growing=False)
    assert (ended.waits, [b.left for b in ended.behind]) == (False, [False])


def test_queries_that_are_equally_slow_are_waited_for_and_none_is_behind() -> None:
    found = pressure([Waiting("a", 90), Waiting("b", 90)], retained_bytes=10, kept_behind_bytes=50)
    assert (found.waits, found.behind) == (True, ())


@given(st.lists(st.integers(0, 40), max_size=5), st.integers(0, 20), st.integers(0, 20))
def test_the_rule(sizes: Sequence[int], retained_bytes: int, kept_behind_bytes: int) -> None:
    waiting = [Waiting(str(number), size) for number, size in enumerate(sizes)]
    found = pressure(waiting, retained_bytes=retained_bytes, kept_behind_bytes=kept_behind_bytes)
    all_late = bool(sizes) and all(size > retained_bytes for size in sizes)
    left = {b.query_id for b in found.behind if b.left}
    assert found.waits == (all_late or bool(left))
    # The query that keeps up best is never taken away, so that somebody always goes on.
    assert left < {w.query_id for w in waiting} or not left
    for number, size in enumerate(sizes):
        assert (str(number) in left) == (size > retained_bytes + kept_behind_bytes and size > min(sizes))
    assert all(b.size_bytes > retained_bytes for b in found.behind)


def test_a_reader_that_no_query_names_never_sets_the_pace() -> None:
    """So a task that is to take another one's place, and is far behind, does not slow its inputs down."""
    one = ReaderCursors((A,))
    assert one.positions({"eu": 9, "us": 0}) == {"a": (9, ("eu",))}
    found = pressure([Waiting("a", 0, ("eu",))], retained_bytes=10, kept_behind_bytes=50)
    assert (found.waits, found.behind) == (False, ())


def test_a_reader_is_where_its_site_is_unless_it_said_more() -> None:
    sites = {"eu": 3, "us": 5}
    assert SHARED.positions(sites) == {"a": (3, ("eu",)), "b": (3, ("eu",))}
    ahead = SHARED.passed(A_EU, 9).passed(B_EU, 7)
    assert ahead.positions(sites) == {"a": (9, ("eu",)), "b": (5, ("us",))}
    # What a site said as a whole counts when it is newer.
    assert ahead.positions({"eu": 12, "us": 12}) == {"a": (12, ("eu",)), "b": (12, ("eu", "us"))}


def test_older_cursors_and_strangers_change_nothing() -> None:
    ahead = SHARED.passed(A_EU, 9)
    assert ahead.passed(A_EU, 8) is ahead
    assert ahead.passed(ChannelReader("us", "c"), 8) is ahead
    assert ReaderCursors().passed(A_EU, 8) == ReaderCursors()


def test_who_reads_no_more_is_forgotten_and_who_needs_nothing_is_not_waited_for() -> None:
    ahead = SHARED.passed(A_EU, 9).passed(B_EU, 7)
    assert ahead.named([B]).ahead == {B_EU: 7}
    assert ahead.named([B]).named([A, B]).positions({})["a"] == (0, ("eu",))
    assert ReaderCursors((QueryReaders("c", ()),)).positions({"eu": 3}) == {"c": (None, ())}
