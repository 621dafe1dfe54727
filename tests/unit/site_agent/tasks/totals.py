"""Partials of cells for tests, and what they add up to by a plain definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from site_agent.tasks.spec import TotalsSpec, ViewSpec, WindowSpec
from tests.unit.site_agent.fakes import TIMESTAMP

CELL_US = 10
EPOCH_US = 40
"""The agent forgets a key of `with_ends` when its epoch is over."""

Partial = tuple[int, str, int]
"""Start of the cell in microseconds, key, and a number of which sums tell what was added up."""
Total = tuple[int, bool, str, int]
"""Start of the cell that comes out, whether it is new, key and sum."""


def window_of(totals: TotalsSpec) -> WindowSpec:
    return WindowSpec("_window_start", CELL_US, CELL_US, (ViewSpec("input", "combine"),), by_bins=True, totals=totals)


def table_of(partials: Sequence[Partial], spec: TotalsSpec) -> pa.Table:
    starts, keys, numbers = zip(*partials, strict=True) if partials else ((), (), ())
    return pa.table(
        {
            "_window_start": pa.array(starts, TIMESTAMP),
            "_since": pa.array([start if spec.ttl_us is not None else 0 for start in starts], TIMESTAMP),
            "k": pa.array(keys, pa.string()),
            "e": pa.array([(start // EPOCH_US + 1) * EPOCH_US for start in starts], TIMESTAMP),
            "n": pa.array(numbers, pa.int64()),
        }
    )


def summed(rows: pa.Table, *more: str) -> pa.Table:
    """Return a row for each cell and key, as the SQL of merges and of combining does."""
    names = ["_window_start", "_since", "k", "e", *more]
    grouped = rows.group_by(names).aggregate([("n", "sum")]).rename_columns([*names, "n"])
    return grouped.cast(pa.schema([(name, rows.schema.field(name).type) for name in (*names, "n")]))


def told(rows: pa.Table) -> list[Total]:
    """Return the groups that the SQL of a merge makes of rows that were handed out."""
    names = ["_window_start", "_new", "_life", "k"]
    grouped = rows.group_by(names).aggregate([("n", "sum")]).to_pylist()
    return sorted((_micros(row["_window_start"]), row["_new"], row["k"], row["n_sum"]) for row in grouped)


def totals_of(rows: Iterable[Partial], before_us: int, watermark_us: int, spec: TotalsSpec) -> list[Total]:
    """Return the results of a step from one watermark to another."""
    found: list[Total] = []
    for key in {row[1] for row in rows}:
        own = [row for row in rows if row[1] == key and row[0] + CELL_US <= watermark_us]
        for life in _lives(sorted({row[0] for row in own}), spec.ttl_us):
            new = [cell for cell in life if cell + CELL_US > before_us]
            old = [cell for cell in life if cell + CELL_US <= before_us]
            last = old[-1:] if new and spec.compares else []
            told_cells = [(cell, True) for cell in new] + [(cell, False) for cell in last]
            for cell, is_new in told_cells:
                found.append((cell, is_new, key, sum(row[2] for row in own if life[0] <= row[0] <= cell)))
    return sorted(found)


def _lives(cells: Sequence[int], ttl_us: int | None) -> list[list[int]]:
    lives: list[list[int]] = []
    for cell in cells:
        if lives and (ttl_us is None or cell < lives[-1][-1] + CELL_US + ttl_us):
            lives[-1].append(cell)
        else:
            lives.append([cell])
    return lives


def _micros(instant: object) -> int:
    return int(pa.scalar(instant, TIMESTAMP).cast(pa.int64()).as_py())
