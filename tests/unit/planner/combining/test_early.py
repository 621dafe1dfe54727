from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.combining.early import (
    FRESH_SHARE,
    HEDGE_SHARE,
    IN_FLIGHT_S,
    MOST_RISK,
    TURN_S,
    Demand,
    Held,
    Link,
    OpenWindow,
    UpdateClass,
    crosses_at_once,
    demands_of,
    early_batches,
    least_batch,
    leave_in_s,
    onward_s,
)
from planner.values.trees import HOP_S

MBIT = 1_000_000 / 8
LINK = Link(MBIT, fresh=True)
WINDOW = OpenWindow(
    end_us=60_000_000,
    ends_in_s=1.0,
    due_in_s=3.5,
    seen=80_000,
    new_per_s=0.0,
    again_per_s=0.0,
    classes=(UpdateClass(50_000, 0.02), UpdateClass(30_000, 0.05)),
    share_seen=1.0,
)
HELD = Held((WINDOW,), 10.0, 1.0)


def sizes(held: Held, link: Link = LINK, others: tuple[tuple[Demand, ...], ...] = ()) -> list[int]:
    return [sum(batch.groups) for batch in early_batches(held, link, others, now_s=100.0)]


def test_what_the_link_carries_after_the_end_stays() -> None:
    """800 kB, and 1 MB/s: half of the link suffices."""
    assert sizes(HELD, Link(8 * MBIT, fresh=True)) == []


def test_what_it_does_not_carry_leaves_fewest_updates_first() -> None:
    (batch,) = early_batches(HELD, LINK, now_s=0.0)
    assert batch.end_us == WINDOW.end_us
    assert 0 < batch.groups[0] <= 50_000
    assert batch.groups[1] == 0
    assert sum(batch.groups) * 10 == pytest.approx(IN_FLIGHT_S * MBIT, rel=0.01)


def test_groups_begin_to_leave_when_half_of_the_link_carries_them() -> None:
    calm = replace(WINDOW, ends_in_s=57.5, due_in_s=60.0, classes=(UpdateClass(80_000, 0.0),))
    held = replace(HELD, windows=(replace(calm, end_us=120_000_000, due_in_s=120.0), calm))
    begin_s = leave_in_s(held, LINK)

    assert begin_s == pytest.approx(60.0 - 1.0 - 800_000 / (HEDGE_SHARE * MBIT), rel=0.01)
    assert leave_in_s(held, None) == 59.0
    before, after = (replace(calm, due_in_s=60 - begin_s + more_s, ends_in_s=57.5 - begin_s) for more_s in (2.0, -2.0))
    assert sizes(replace(HELD, windows=(before,))) == []
    assert sizes(replace(HELD, windows=(after,))) != []


def test_of_classes_that_are_as_likely_to_come_again_as_many_leave_as_each_has() -> None:
    """All keys are equal then, and the first by their keys leave, whatever their counts are by chance."""
    alike = replace(
        WINDOW, classes=(UpdateClass(10_000, 0.020), UpdateClass(50_000, 0.021), UpdateClass(20_000, 0.022))
    )
    (batch,) = early_batches(replace(HELD, windows=(alike,)), LINK, now_s=0.0)
    share = IN_FLIGHT_S * MBIT / 10 / 80_000
    assert batch.groups == pytest.approx((share * 10_000, share * 50_000, share * 20_000), abs=2)
    assert sum(batch.groups) == int(IN_FLIGHT_S * MBIT / 10)


def test_a_batch_of_which_more_would_be_sent_twice_than_has_to_leave_stays() -> None:
    least = least_batch(LINK)
    few = replace(WINDOW, due_in_s=1.1, ends_in_s=1.0, classes=(UpdateClass(int(0.5 * least / 10), 0.01),))
    assert sizes(replace(HELD, windows=(few,))) == [], "there are no more to fill it with"
    more = replace(few, due_in_s=1.2, classes=(UpdateClass(int(1.1 * least / 10), 0.01),))
    (size,) = sizes(replace(HELD, windows=(more,)))
    assert size * 10 >= least - 10
    often = replace(more, classes=(UpdateClass(int(1.1 * least / 10), 0.85),))
    assert sizes(replace(HELD, windows=(often,))) == []


def test_groups_that_come_up_often_stay_before_the_end() -> None:
    often = replace(WINDOW, ends_in_s=20.0, due_in_s=23.0, classes=(UpdateClass(0, 0.0), UpdateClass(400_000, 0.9)))
    assert sizes(replace(HELD, windows=(often,))) == []


def test_all_may_leave_after_the_end() -> None:
    over = replace(WINDOW, ends_in_s=-1.0, due_in_s=1.2, classes=(UpdateClass(0, 0.0), UpdateClass(80_000, 0.9)))
    assert sizes(replace(HELD, windows=(over,))) == [int(IN_FLIGHT_S * MBIT / 10)]


def test_a_queue_leaves_room_for_less() -> None:
    queued = replace(LINK, queued_bytes=int(MBIT))
    (few,) = sizes(HELD, queued)
    assert few * 10 <= (IN_FLIGHT_S - 1) * MBIT + 10
    assert sizes(HELD, replace(LINK, queued_bytes=int(IN_FLIGHT_S * MBIT))) == []


def test_groups_that_hardly_change_leave_while_half_of_the_link_is_free() -> None:
    calm = replace(WINDOW, due_in_s=6.0, ends_in_s=3.0, classes=(UpdateClass(60_000, 0.001),), seen=60_000)
    room = LINK.bytes_per_s * (calm.due_in_s - 1)
    assert HEDGE_SHARE * room < 600_000 < 0.9 * room + 100_000
    assert sum(sizes(replace(HELD, windows=(calm,)))) > 0
    busy = replace(calm, classes=(UpdateClass(50_000, 0.3),), seen=50_000)
    assert sizes(replace(HELD, windows=(busy,))) == []


def test_growth_is_that_of_the_window_before_but_no_more_than_lately() -> None:
    half = replace(WINDOW, ends_in_s=10.0, new_per_s=1_000.0, share_seen=0.5)
    (by_curve,) = demands_of(replace(HELD, windows=(half,)), LINK, now_s=0.0)
    (first_window,) = demands_of(replace(HELD, windows=(replace(half, share_seen=None),)), LINK, now_s=0.0)
    (slow,) = demands_of(replace(HELD, windows=(replace(half, new_per_s=10.0),)), LINK, now_s=0.0)
    assert slow.size_bytes < first_window.size_bytes < by_curve.size_bytes


def test_several_queries_plan_as_one_and_take_turns() -> None:
    small = replace(HELD, windows=(replace(WINDOW, seen=12_000, classes=(UpdateClass(12_000, 0.0),)),))
    assert sizes(small) == [], "alone there is room"
    (own,) = demands_of(small, LINK, now_s=100.0)
    others = ((replace(own, ready_bytes=own.ready_bytes - 1),),) * 7
    assert sizes(small, others=others) == [int(TURN_S * MBIT / 10)]
    assert sizes(small, others=((replace(own, ready_bytes=own.ready_bytes + 1),), *others)) == []
    later = tuple((replace(d, due_s=d.due_s + 9),) for (d,) in others)
    assert sizes(small, others=later) == [], "they have time"


classes = st.lists(st.builds(UpdateClass, st.integers(0, 10**6), st.floats(0, 1)), min_size=1, max_size=20)


@st.composite
def windows(draw: st.DrawFn) -> OpenWindow:
    found = tuple(draw(classes))
    due_in_s = draw(st.floats(0, 600))
    return OpenWindow(
        end_us=draw(st.integers(0, 10**12)),
        ends_in_s=due_in_s - draw(st.floats(0.1, 10)),
        due_in_s=due_in_s,
        seen=sum(c.held for c in found) + draw(st.integers(0, 10**6)),
        new_per_s=draw(st.floats(0, 10**5)),
        again_per_s=draw(st.floats(0, 10**5)),
        classes=found,
        share_seen=draw(st.none() | st.floats(0, 1)),
    )


helds = st.builds(Held, st.lists(windows(), min_size=1, max_size=4).map(tuple), st.floats(1, 500), st.floats(0.01, 5))
links = st.builds(Link, st.floats(1e3, 1e9), st.booleans(), st.integers(0, 10**8))
demands = st.lists(st.builds(Demand, st.floats(0, 1000), st.floats(0, 1e7), st.floats(0, 1e7)), max_size=3)


@given(helds, links, st.lists(demands, max_size=3))
def test_bounds_hold(held: Held, link: Link, others: list[list[Demand]]) -> None:
    """Never above what may be in flight, no early batch under the least one, no more groups than are held."""
    batches = early_batches(held, link, others, now_s=100.0)
    sent = [sum(batch.groups) * held.bytes_per_group for batch in batches]
    assert sum(sent) + link.queued_bytes <= IN_FLIGHT_S * link.bytes_per_s * held.epoch_s + 1e-3 or not sent
    assert all(size >= least_batch(link) - 1e-3 for size in sent)
    for batch in batches:
        options = [w for w in held.windows if w.end_us == batch.end_us]
        assert any(all(count <= c.held for count, c in zip(batch.groups, w.classes, strict=False)) for w in options)


@given(helds, links)
def test_nothing_leaves_while_the_link_has_room_for_all(held: Held, link: Link) -> None:
    expected = sum(d.size_bytes for d in demands_of(held, link, now_s=0.0)) + link.queued_bytes
    soonest_s = min(w.due_in_s for w in held.windows) - held.epoch_s
    if expected <= HEDGE_SHARE * link.bytes_per_s * soonest_s:
        assert early_batches(held, link, now_s=0.0) == ()


@given(helds, links)
def test_groups_that_are_likely_to_come_again_stay(held: Held, link: Link) -> None:
    surely = replace(
        held,
        windows=tuple(
            replace(w, ends_in_s=100 * held.epoch_s, classes=tuple(replace(c, hazard=1.0) for c in w.classes))
            for w in held.windows
        ),
    )
    assert MOST_RISK < 1
    assert early_batches(surely, link, now_s=0.0) == ()


def test_a_site_between_sends_nothing_while_the_last_groups_are_about_to_come() -> None:
    late = replace(HELD, windows=(replace(WINDOW, due_in_s=0.9),))
    assert sizes(late) != []
    assert sizes(replace(late, gathers=True)) == []
    assert sizes(replace(HELD, gathers=True)) == sizes(HELD)


def test_what_a_site_between_needs_now_leaves_however_small_it_is() -> None:
    few = replace(WINDOW, due_in_s=0.5, ends_in_s=0.0, seen=20, classes=(UpdateClass(20, 0.0),))
    assert sizes(replace(HELD, windows=(few,))) == []
    assert sizes(replace(HELD, windows=(replace(few, goes_on=True),))) == [20]
    assert sizes(replace(HELD, windows=(replace(few, goes_on=True, due_in_s=5.0),))) == []


def test_how_much_earlier_a_site_between_needs_what_others_have() -> None:
    """What leaves in a moment it waits for; else the way onward, a hop and an epoch before."""
    assert onward_s(10_000, LINK, 1.0) == 0
    assert onward_s(10**6, None, 1.0) == 0
    assert onward_s(MBIT, LINK, 1.0) == pytest.approx(1 / FRESH_SHARE + HOP_S + 1.0)


def test_what_crosses_in_the_moment_after_a_windows_end() -> None:
    """90 % of 125 kB/s are planned with, for 0.2 s: 22.5 kB; where the rate is old, 60 %."""
    other = (Demand(1.0, 10_000.0, 0.0),)
    assert crosses_at_once(22_500.0, LINK)
    assert not crosses_at_once(22_501.0, LINK)
    assert crosses_at_once(12_500.0, LINK, [other])
    assert not crosses_at_once(12_501.0, LINK, [other])
    assert not crosses_at_once(20_000.0, replace(LINK, queued_bytes=3_000))
    assert not crosses_at_once(15_001.0, replace(LINK, fresh=False))
