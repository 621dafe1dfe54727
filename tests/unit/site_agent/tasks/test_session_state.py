"""Open sessions against a list of all rows: in memory and on disk, checkpoints, crashes, sessions closed by ranges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from planner.values.names import BIN_COLUMN
from site_agent.state.segments import without_bins
from site_agent.tasks.checkpoint import Checkpoint
from site_agent.tasks.instants import EVERY_US
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.sessions import OpenSessions
from site_agent.tasks.spec import SessionSpec
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.kept import KEYS, LIMITS, KeptRows, with_bins
from tests.unit.site_agent.tasks.sessions import WINDOW, Partial, partials_of, sessions_of, summed, table_of
from tests.unit.site_agent.tasks.test_merge import Site

BINNED = replace(WINDOW, by_bins=True)


async def combine(sql: str, rows: pa.Table) -> pa.Table:
    assert sql == "combine"
    return with_bins(summed(without_bins(rows)))


def opened(directory: Path) -> MergeState:
    return MergeState(Site(directory, TableEngine({}), LIMITS).context, BINNED, combine)


def together(rows: Iterable[Partial]) -> list[Partial]:
    """Return the result of a merge's SQL over rows that have the start and end of their session."""
    return partials_of(summed(table_of(list(rows)))) if rows else []


class StateMachine(KeptRows):
    """The model: all rows of sessions that are not out."""

    window = BINNED
    combine = staticmethod(combine)

    @rule(
        rows=st.lists(
            st.tuples(st.integers(0, 60), st.integers(0, 15), st.sampled_from(KEYS), st.integers(1, 9)), max_size=8
        ),
        behind=st.booleans(),
    )
    def take(self, rows: list[tuple[int, int, str, int]], *, behind: bool) -> None:
        """Rows behind the watermark, too, which are late."""
        begin = 0 if behind or self.closed_us is None else self.closed_us
        partials = [(begin + start, begin + start + length, key, number) for start, length, key, number in rows]
        late = self.state.open.add("input", with_bins(table_of(partials)), late_us=self.closed_us)
        kept = [row for row in partials if self.closed_us is None or row[0] >= self.closed_us]
        assert late == len(partials) - len(kept)
        self.rows += kept

    @rule(ahead=st.integers(0, 30))
    def close(self, ahead: int) -> None:
        watermark_us = (self.closed_us or 0) + ahead
        due = [session for session in sessions_of(self.rows) if session[1] < watermark_us]
        found: list[Partial] = []
        for bins in self.state.ranges(watermark_us):
            for closed in self.state.open.closing(watermark_us, bins).values():
                assert BIN_COLUMN not in closed.column_names
                found += partials_of(closed)
        assert together(found) == together(due)
        self.state.open.advance(watermark_us)
        self.rows = [row for row in self.rows if not any(_is_in(row, session) for session in due)]

    @precondition(lambda self: hasattr(self, "state"))
    @invariant()
    def it_has_the_rows(self) -> None:
        closed = self.state.open.closing((self.closed_us or 0) + 1000)
        found = [row for table in closed.values() for row in partials_of(table)]
        assert together(found) == together(sessions_of(self.rows))
        assert bool(self.state.open.ends_by((self.closed_us or 0) + 1000)) or not self.rows


def _is_in(row: Partial, session: Partial) -> bool:
    return row[2] == session[2] and session[0] <= row[0] <= session[1]


StateMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestState = StateMachine.TestCase


def test_the_first_row_of_a_session_is_out_when_the_watermark_has_passed_it() -> None:
    spec = replace(WINDOW, sessions=SessionSpec("_window_end", ("k",), at_start=True))
    for seed in range(60):
        random, sessions = Random(seed), OpenSessions(spec)
        rows: list[Partial] = []
        out: list[tuple[int, str | None]] = []
        closed_us = 0
        for _ in range(25):
            made = [
                (start := closed_us + random.randrange(15), start + random.randrange(1, 9), random.choice("ab"), 1)
                for _ in range(random.randrange(3))
            ]
            sessions.add([table_of(made)], late_us=closed_us)
            rows += made
            watermark_us = closed_us + random.randrange(8)
            found = partials_of(sessions.closing(watermark_us)) if sessions.ends_by(watermark_us) else []
            out += sorted({(row[0], row[2]) for row in found})
            sessions.advance(watermark_us)
            closed_us = watermark_us
            wanted = [(row[0], row[2]) for row in sessions_of(rows) if row[0] < closed_us]
            assert sorted(out) == sorted(wanted), seed
        sessions.advance(closed_us + 100)
        assert sessions.rows == 0


def opened_with(*partials: Partial) -> OpenSessions:
    sessions = OpenSessions(WINDOW)
    sessions.add([table_of(partials)])
    return sessions


def test_a_session_is_out_when_the_watermark_has_passed_its_end_not_when_it_is_there() -> None:
    sessions = opened_with((0, 10, "a", 1))
    assert sessions.closing(10) is None
    sessions.advance(10)
    sessions.add([table_of([(10, 20, "a", 2)])], late_us=10)
    assert sessions.closing(20) is None
    assert partials_of(sessions.closing(21)) == [(0, 20, "a", 1), (0, 20, "a", 2)]


def test_sessions_are_bridged_by_a_row_that_comes_last() -> None:
    sessions = opened_with((0, 10, "a", 1), (20, 30, "a", 2), (10, 20, "a", 4), (5, 6, "b", 8))
    closed = sessions.closing(31)
    assert partials_of(summed(closed)) == [(0, 30, "a", 7), (5, 6, "b", 8)]


def test_a_row_that_ended_long_ago_stays_while_its_session_is_open() -> None:
    sessions = opened_with((0, 10, "a", 1), (10, 90, "a", 2), (0, 10, "b", 4))
    assert partials_of(sessions.closing(50)) == [(0, 10, "b", 4)]
    sessions.advance(50)
    assert sessions.rows == 2
    assert sessions.closing(90) is None
    assert partials_of(summed(sessions.closing(91))) == [(0, 90, "a", 3)]


async def test_a_key_that_never_falls_silent_is_one_row_and_comes_out_at_the_end(tmp_path: Path) -> None:
    state = opened(tmp_path)
    await state.restore()
    for number in range(1, 101):
        rows = [(start, start + 10, "a", 1) for start in range(1000 * number, 1000 * (number + 1), 10)]
        state.open.add("input", with_bins(table_of(rows)))
        assert state.open.closing(1000 * number) == {}
        state.open.advance(1000 * number)
        await state.save(Checkpoint(number, closed_us=1000 * number), one_of_each=number % 10 == 0)
    assert state.open.rows == 1
    (closed,) = state.open.closing(2**62).values()
    assert partials_of(closed) == [(1000, 101_000, "a", 10_000)]


async def test_after_a_restart_rows_are_in_memory_where_it_has_room(tmp_path: Path) -> None:
    for limit_bytes in (10**9, 1):
        state = opened(tmp_path / str(limit_bytes))
        await state.restore()
        state.open.add("input", with_bins(table_of([(0, 10, "a", 1), (0, 30, "b", 2)])))
        await state.save(Checkpoint(1))
        again = opened(tmp_path / str(limit_bytes))
        again.memory.limit_bytes = limit_bytes
        await again.restore()
        assert (again.open.memory_bytes > 0) == (limit_bytes > 1)
        again.open.advance(20)
        assert again.open.rows == (1 if limit_bytes > 1 else 2)
        assert [partials_of(table) for table in again.open.closing(40).values()] == [[(0, 30, "b", 2)]]


def test_the_watermark_is_told_once_a_second() -> None:
    sessions = OpenSessions(WINDOW)
    assert not sessions.crosses_boundary(None)
    assert sessions.crosses_boundary(5)
    sessions.advance(5)
    assert not sessions.crosses_boundary(EVERY_US - 1)
    assert sessions.crosses_boundary(EVERY_US)
    sessions.advance(EVERY_US)
    assert not sessions.crosses_boundary(EVERY_US)
