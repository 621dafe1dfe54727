from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from planner.relations.connectors.generator import MAX_ROWS_PER_SECOND
from site_agent.connectors.generator.schedule import Schedule

SECOND_US = 1_000_000
START_US = 1_767_225_600_000_000

rates = st.one_of(
    st.just(Fraction(0)),
    st.integers(1, MAX_ROWS_PER_SECOND).map(Fraction),
    st.fractions(Fraction(1, 100), 1000, max_denominator=1000),
)
gaps_us = st.integers(0, 20 * SECOND_US)


@st.composite
def changes(draw: st.DrawFn, *, last_rate: st.SearchStrategy[Fraction] = rates) -> list[tuple[int, Fraction]]:
    since_us, found = START_US, []
    for gap_us in draw(st.lists(gaps_us, max_size=4)):
        found.append((since_us, draw(rates)))
        since_us += gap_us
    return [*found, (since_us, draw(last_rate))]


def test_a_constant_rate() -> None:
    schedule = Schedule([(START_US, Fraction(4))])
    assert [schedule.time_us(row) for row in range(3)] == [START_US, START_US + 250_000, START_US + 500_000]
    assert schedule.rows_by(START_US - 1) == 0
    assert schedule.rows_by(START_US) == 1
    assert schedule.rows_by(START_US + 249_999) == 1
    assert schedule.rows_by(START_US + SECOND_US) == 5


def test_a_change_takes_effect_at_its_instant() -> None:
    schedule = Schedule([(START_US, Fraction(1)), (START_US + 2_500_000, Fraction(10))])
    # Half a row was due at the change; the other half takes a twentieth of a second.
    assert [schedule.time_us(row) for row in (2, 3, 4)] == [
        START_US + 2_000_000,
        START_US + 2_550_000,
        START_US + 2_650_000,
    ]


def test_no_row_is_born_while_the_rate_is_zero() -> None:
    pause_us, resume_us = START_US + 10 * SECOND_US, START_US + 60 * SECOND_US
    schedule = Schedule([(START_US, Fraction(1)), (pause_us, Fraction(0)), (resume_us, Fraction(1))])
    assert schedule.rows_by(pause_us) == schedule.rows_by(resume_us - 1) == 10
    assert schedule.time_us(9) == START_US + 9 * SECOND_US
    assert schedule.time_us(10) == resume_us


def test_a_rate_of_zero_for_ever() -> None:
    assert Schedule([(START_US, Fraction(0))]).time_us(0) is None
    assert Schedule([(START_US, Fraction(0))]).rows_by(START_US + SECOND_US) == 0
    stopped = Schedule([(START_US, Fraction(1)), (START_US + SECOND_US, Fraction(0))])
    assert (stopped.time_us(0), stopped.time_us(1), stopped.rows_by(10**18)) == (START_US, None, 1)


@given(changes(), st.integers(0, 10**9))
def test_row_and_instant_are_inverse(entries: list[tuple[int, Fraction]], row: int) -> None:
    schedule = Schedule(entries)
    born_us = schedule.time_us(row)
    if born_us is None:
        assert schedule.rows_by(10**17) <= row
    else:
        assert schedule.rows_by(born_us) > row
        assert schedule.rows_by(born_us - 1) <= row


@given(changes(), st.integers(0, 100 * SECOND_US))
def test_what_is_born_by_an_instant_is_what_has_an_earlier_time(
    entries: list[tuple[int, Fraction]], after_us: int
) -> None:
    schedule = Schedule(entries)
    instant_us = START_US + after_us
    count = schedule.rows_by(instant_us)
    if count:
        last_us = schedule.time_us(count - 1)
        assert last_us is not None
        assert last_us <= instant_us
    next_us = schedule.time_us(count)
    assert next_us is None or next_us > instant_us


@given(changes(), st.integers(0, 10**8), st.integers(1, 10**6))
def test_time_never_runs_back(entries: list[tuple[int, Fraction]], row: int, step: int) -> None:
    schedule = Schedule(entries)
    earlier_us, later_us = schedule.time_us(row), schedule.time_us(row + step)
    assert later_us is None or (earlier_us is not None and earlier_us <= later_us)


@given(changes(), rates, gaps_us, st.integers(0, 10**8))
def test_the_future_does_not_change_the_past(
    entries: list[tuple[int, Fraction]], rate: Fraction, gap_us: int, row: int
) -> None:
    change_us = entries[-1][0] + gap_us
    before, after = Schedule(entries), Schedule([*entries, (change_us, rate)])
    old_us, new_us = before.time_us(row), after.time_us(row)
    if old_us is not None and old_us < change_us:
        assert new_us == old_us
    else:
        assert new_us is None or new_us >= change_us
    assert before.rows_by(change_us - 1) == after.rows_by(change_us - 1)
