"""Open rows of pairs against a list of all rows: in memory and on disk, checkpoints, crashes, steps by ranges."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from planner.values.names import BIN_COLUMN
from site_agent.tasks import pairs as module
from site_agent.tasks.checkpoint import Checkpoint
from site_agent.tasks.context import TaskLimits
from site_agent.tasks.merge_state import MergeState
from site_agent.tasks.pairs import OpenPairs
from site_agent.tasks.versions import views_of
from tests.seeds import random_of, several
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.pairs import FIRST, KINDS, SECOND, UPPER_US, Found, Kind, Row, row_of, table_of
from tests.unit.site_agent.tasks.test_merge import Site

LIMITS = TaskLimits(rows_at_once=3, runs_alike=2, runs_most=5)


@pytest.fixture(autouse=True, scope="module")
def _lets_go_often() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LET_GO_EVERY_US", 7)
        yield None


def with_bins(table: pa.Table) -> pa.Table:
    bins = [40 if key == "b" else 5 for key in table.column("k").to_pylist()]
    return table.append_column(BIN_COLUMN, pa.array(bins, pa.int64()))


async def combine(sql: str, rows: pa.Table) -> pa.Table:
    raise AssertionError(f"{rows.num_rows} rows cannot be combined by {sql!r}")


def opened(directory: Path, kind: Kind) -> MergeState:
    return MergeState(Site(directory, TableEngine({}), LIMITS).context, kind.window, combine)


class World:
    """The state, and a model: all rows that were taken, and what has come out; of the last checkpoint, too."""

    def __init__(self, kind: Kind, directory: Path, random: Random) -> None:
        self.kind, self.directory, self.random = kind, directory, random
        self.rows: dict[str, list[Row]] = {FIRST: [], SECOND: []}
        self.out: list[Found] = []
        self.saved = ({FIRST: list[Row](), SECOND: list[Row]()}, list[Found]())
        self.number = self.taken = 0

    async def begin(self) -> None:
        self.state = opened(self.directory, self.kind)
        assert (await self.state.restore()).checkpoint.number == self.number
        self.rows, self.out = {view: list(rows) for view, rows in self.saved[0].items()}, list(self.saved[1])

    @property
    def closed_us(self) -> int | None:
        return self.state.open.closed_us

    def take(self, view: str) -> None:
        """Rows behind the watermark, too, which are late."""
        random, made = self.random, list[Row]()
        for _ in range(random.randrange(1, 5)):
            self.taken += 1
            at_us = (self.closed_us or 0) + random.randrange(-1, 20)
            until_us = None if random.random() < 0.1 else at_us + random.randrange(-9, 30)
            made.append((at_us, random.choice((None, "a", "a", "b", "b")), self.taken, until_us))
        late = self.state.open.add(view, with_bins(table_of(made)), late_us=self.closed_us)
        kept = [row for row in made if self.closed_us is None or row[0] >= self.closed_us]
        assert late == len(made) - len(kept)
        self.rows[view] += kept

    def close(self) -> None:
        watermark_us = (self.closed_us or 0) + self.random.randrange(12)
        open_, found = self.state.open, list[Found]()
        for bins in self.state.ranges(watermark_us):
            closing = open_.closing(watermark_us, bins)
            assert all(BIN_COLUMN not in table.column_names for table in closing.values())
            found += self.kind.joined(closing) if open_.can_match(closing) else []
        assert bool(open_.ends_by(watermark_us)) or not found
        self.out = sorted(self.out + found, key=repr)
        open_.advance(watermark_us)
        assert self.closed_us == watermark_us
        assert self.out == self.kind.out(self.rows[FIRST], self.rows[SECOND], watermark_us)

    async def save(self) -> None:
        self.number += 1
        await self.state.save(Checkpoint(self.number, closed_us=self.closed_us))
        self.saved = ({view: list(rows) for view, rows in self.rows.items()}, list(self.out))
        assert all(len(windows.runs) <= LIMITS.runs_most for windows in self.state.open.windows.values())

    async def step(self) -> None:
        drawn = self.random.random()
        if drawn < 0.4:
            self.take(self.random.choice((FIRST, SECOND)))
        elif drawn < 0.75:
            self.close()
        elif drawn < 0.9:
            await self.save()
        elif drawn < 0.95:
            self.state.open.forget()
        else:
            await self.begin()


@pytest.mark.parametrize("kind", KINDS)
async def test_what_comes_out_is_what_the_definition_says_after_each_step(kind: str, tmp_path: Path) -> None:
    for seed in range(several(5, 15)):
        world = World(KINDS[kind], tmp_path / str(seed), random_of(f"{kind}/{seed}"))
        await world.begin()
        for _ in range(60):
            await world.step()


def opened_with(kind: str, first: list[Row], second: list[Row]) -> OpenPairs:
    pairs = views_of(KINDS[kind].window)
    assert isinstance(pairs, OpenPairs)
    pairs.add(FIRST, table_of(first))
    pairs.add(SECOND, table_of(second))
    return pairs


def test_a_pair_is_out_once_the_watermark_has_passed_both_rows() -> None:
    pairs = opened_with("inner", [(10, "a", 1, None)], [(20, "a", 2, None)])
    assert pairs.closing(20) == {} or KINDS["inner"].joined(pairs.closing(20)) == []
    pairs.advance(20)
    assert KINDS["inner"].joined(pairs.closing(21)) == [(1, 2)]
    pairs.advance(21)
    assert pairs.closing(1000) == {}


def test_rows_of_other_keys_are_not_handed_out() -> None:
    pairs = opened_with("inner", [(10, "a", 1, None), (10, "b", 2, None)], [(12, "c", 3, None)])
    pairs.advance(15)
    pairs.add(SECOND, table_of([(16, "b", 4, None)]))
    closing = pairs.closing(17)
    assert [row_of(row)[2] for row in closing[FIRST].to_pylist()] == [2]
    assert [row_of(row)[2] for row in closing[SECOND].to_pylist()] == [4]


def test_rows_go_when_nothing_is_made_of_them_any_more() -> None:
    for kind, left in (("inner", (0, 0)), ("left", (0, 0)), ("full", (0, 0))):
        pairs = opened_with(kind, [(10, "a", 1, None)], [(20, "a", 2, None)])
        pairs.advance(21)
        assert (pairs.windows[FIRST].rows, pairs.windows[SECOND].rows) == (1, 1)
        pairs.advance(10 + UPPER_US + 8)
        assert (pairs.windows[FIRST].rows, pairs.windows[SECOND].rows)[0] == left[0]
        pairs.advance(1000)
        assert pairs.rows == 0


def test_a_match_stays_for_as_long_as_a_row_that_it_keeps_from_coming_out_alone() -> None:
    pairs = opened_with("left until", [(0, "a", 1, 500)], [(5, "a", 2, None)])
    pairs.advance(400)
    assert pairs.windows[SECOND].rows == 1
    pairs.advance(500)
    assert KINDS["left until"].joined(pairs.closing(501)) == []
    pairs.advance(600)
    assert pairs.rows == 0


def test_versions_go_when_a_newer_one_of_their_key_is_before_the_watermark() -> None:
    versions: list[Row] = [
        (0, "a", 1, None),
        (5, "a", 2, None),
        (5, "b", 3, None),
        (6, None, 4, None),
        (30, "a", 5, None),
    ]
    pairs = opened_with("versions", versions, [(4, "a", 6, None)])
    assert KINDS["versions"].joined(pairs.closing(8)) == [(1, 6)]
    pairs.advance(8)
    assert (pairs.windows[FIRST].rows, pairs.windows[SECOND].rows) == (3, 0)
    pairs.add(SECOND, table_of([(20, "a", 7, None), (20, "b", 8, None), (35, "a", 9, None)]))
    assert KINDS["versions"].joined(pairs.closing(40)) == [(2, 7), (3, 8), (5, 9)]
    pairs.advance(40)
    assert pairs.windows[FIRST].rows == 2


def test_a_version_of_the_very_instant_does_not_replace_one_that_counts_before_it() -> None:
    pairs = opened_with("versions before", [(0, "a", 1, None), (8, "a", 2, None)], [(0, "a", 3, None)])
    pairs.advance(8)
    pairs.add(SECOND, table_of([(8, "a", 4, None)]))
    assert KINDS["versions before"].joined(pairs.closing(9)) == [(1, 4)]
