"""Rows of two views that are paired by their times, for tests: what the SQL of a stage and a plain definition make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from planner.values.names import DUE_COLUMN, NEW_COLUMN, ROW_COLUMN
from planner.values.pairs import PairSide
from site_agent.tasks.spec import PairSpec, ViewSpec, WindowSpec
from tests.unit.site_agent.fakes import TIMESTAMP

FIRST, SECOND = "input", "t1"
LOWER_US, UPPER_US = -10, 15

Row = tuple[int, str | None, int, int | None]
"""Event time in microseconds, key, a number of its own, and until when it matches, where the rows say that."""
Found = tuple[int | None, int | None]
"""The numbers of the two rows of a pair; None: there is no such row."""


@dataclass(frozen=True)
class Kind:
    """A kind of join: which rows come out beside pairs, or in their place."""

    first_unmatched: bool = False
    second_unmatched: bool = False
    once: bool = False
    pairs: bool = True
    until: bool = False

    @property
    def window(self) -> WindowSpec:
        first = PairSide(FIRST, ("k",), self.first_unmatched, self.once)
        second = PairSide(SECOND, ("k",), self.second_unmatched)
        upper_us, until = (None, "until") if self.until else (UPPER_US, "")
        pairs = PairSpec(first, second, LOWER_US, upper_us, until, self.pairs)
        views = (
            ViewSpec(FIRST, required=not self.second_unmatched),
            ViewSpec(SECOND, required=not (self.first_unmatched or not self.pairs)),
        )
        return WindowSpec("_window_start", 1_000_000, 1_000_000, views, by_bins=True, pairs=pairs)

    def until_us(self, row: Row) -> int | None:
        return row[3] if self.until else row[0] + UPPER_US

    def matches(self, first: Row, second: Row) -> bool:
        until_us = self.until_us(first)
        same = first[1] is not None and first[1] == second[1]
        return same and until_us is not None and first[0] + LOWER_US <= second[0] <= until_us

    def out(self, firsts: Sequence[Row], seconds: Sequence[Row], watermark_us: int) -> list[Found]:
        """Return all that is out at a watermark: pairs at their later time, rows when none can match."""
        pairs = [(a, b) for a in firsts for b in seconds if self.matches(a, b)]
        found: list[tuple[int, Found]] = []
        if self.once:
            for a in firsts:
                times = [max(a[0], b[0]) for x, b in pairs if x == a]
                found += [(min(times), (a[2], None))] if times else []
        elif self.pairs:
            found += [(max(a[0], b[0]), (a[2], b[2])) for a, b in pairs]
        if self.first_unmatched:
            alone = [a for a in firsts if all(x != a for x, _ in pairs)]
            found += [
                (max(a[0], until if (until := self.until_us(a)) is not None else a[0]), (a[2], None)) for a in alone
            ]
        if self.second_unmatched:
            alone = [b for b in seconds if all(x != b for _, x in pairs)]
            found += [(max(b[0], b[0] - LOWER_US), (None, b[2])) for b in alone]
        return sorted((numbers for at_us, numbers in found if at_us < watermark_us), key=repr)

    def joined(self, rows: Mapping[str, pa.Table | None]) -> list[Found]:
        """Return the result of the stage's SQL over the rows of a step."""
        firsts, seconds = (_flagged(rows.get(view)) for view in (FIRST, SECOND))
        matching = [(a, b) for a in firsts for b in seconds if self.matches(a.row, b.row)]
        new = [(a, b) for a, b in matching if a.new or b.new]
        found: list[Found] = []
        if self.once:
            old = [a for a, b in matching if not (a.new or b.new)]
            found += [(a.row[2], None) for a in firsts if any(x is a for x, _ in new) and all(x is not a for x in old)]
        elif self.pairs:
            found += [(a.row[2], b.row[2]) for a, b in new]
        if self.first_unmatched:
            found += [(a.row[2], None) for a in firsts if a.due and all(x is not a for x, _ in matching)]
        if self.second_unmatched:
            found += [(None, b.row[2]) for b in seconds if b.due and all(x is not b for _, x in matching)]
        return sorted(found, key=repr)


@dataclass(frozen=True)
class Versions(Kind):
    """Rows of the second view, each with the newest of the first one before it; without one too, if they may be."""

    strict: bool = False

    @property
    def window(self) -> WindowSpec:
        sides = (PairSide(FIRST, ("k",)), PairSide(SECOND, ("k",), unmatched=self.second_unmatched))
        pairs = PairSpec(*sides, 0, None, newest=True, strict=self.strict)
        views = (ViewSpec(FIRST, required=not self.second_unmatched), ViewSpec(SECOND, required=True))
        return WindowSpec("_window_start", 1_000_000, 1_000_000, views, by_bins=True, pairs=pairs)

    def matches(self, first: Row, second: Row) -> bool:
        before = first[0] < second[0] if self.strict else first[0] <= second[0]
        return before and first[1] is not None and first[1] == second[1]

    def out(self, firsts: Sequence[Row], seconds: Sequence[Row], watermark_us: int) -> list[Found]:
        """Each row once, with the version of the greatest event time; of those of one instant, the greatest number."""
        found: list[Found] = []
        for row in (second for second in seconds if second[0] < watermark_us):
            versions = [(first[0], first[2]) for first in firsts if self.matches(first, row)]
            if versions or self.second_unmatched:
                found.append((max(versions)[1] if versions else None, row[2]))
        return sorted(found, key=repr)

    def joined(self, rows: Mapping[str, pa.Table | None]) -> list[Found]:
        firsts, seconds = (table.to_pylist() if (table := rows.get(view)) else [] for view in (FIRST, SECOND))
        versions = {first[ROW_COLUMN]: first["n"] for first in firsts}
        assert len(versions) == len(firsts)
        found = [(versions.get(row[ROW_COLUMN]), row["n"]) for row in seconds]
        return sorted((one for one in found if self.second_unmatched or one[0] is not None), key=repr)


KINDS: dict[str, Kind] = {
    "inner": Kind(),
    "left": Kind(first_unmatched=True),
    "right": Kind(second_unmatched=True),
    "full": Kind(first_unmatched=True, second_unmatched=True),
    "semi": Kind(once=True),
    "anti": Kind(first_unmatched=True, pairs=False),
}
KINDS |= {
    f"{name} until": Kind(k.first_unmatched, k.second_unmatched, k.once, k.pairs, True) for name, k in KINDS.items()
}
KINDS |= {
    "versions": Versions(),
    "versions or none": Versions(second_unmatched=True),
    "versions before": Versions(second_unmatched=True, strict=True),
}


@dataclass(frozen=True, eq=False)
class _Flagged:
    row: Row
    new: bool
    due: bool


def _flagged(table: pa.Table | None) -> list[_Flagged]:
    if table is None:
        return []
    return [_Flagged(row_of(row), row[NEW_COLUMN], row[DUE_COLUMN]) for row in table.to_pylist()]


def row_of(row: Mapping[str, object]) -> Row:
    until = row["until"]
    return (_micros(row["_window_start"]), row["k"], row["n"], None if until is None else _micros(until))  # type: ignore[return-value]


def table_of(rows: Sequence[Row]) -> pa.Table:
    times, keys, numbers, untils = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.table(
        {
            "_window_start": pa.array(times, TIMESTAMP),
            "k": pa.array(keys, pa.string()),
            "n": pa.array(numbers, pa.int64()),
            "until": pa.array(untils, TIMESTAMP),
        }
    )


def _micros(instant: object) -> int:
    return int(pa.scalar(instant, TIMESTAMP).cast(pa.int64()).as_py())
