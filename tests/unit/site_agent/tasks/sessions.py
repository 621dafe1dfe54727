"""Partials of sessions for tests, and what sessions they make by a plain definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from site_agent.tasks.spec import SessionSpec, ViewSpec, WindowSpec
from tests.unit.site_agent.fakes import TIMESTAMP

Partial = tuple[int, int, str | None, int]
"""Start and end in microseconds, key, and a number of which sums tell what was added up."""

WINDOW = WindowSpec(
    "_window_start",
    1_000_000,
    1_000_000,
    (ViewSpec("input", "combine"),),
    sessions=SessionSpec("_window_end", ("k",)),
)


def table_of(partials: Sequence[Partial]) -> pa.Table:
    starts, ends, keys, numbers = zip(*partials, strict=True) if partials else ((), (), (), ())
    return pa.table(
        {
            "_window_start": pa.array(starts, TIMESTAMP),
            "_window_end": pa.array(ends, TIMESTAMP),
            "k": pa.array(keys, pa.string()),
            "n": pa.array(numbers, pa.int64()),
        }
    )


def partials_of(table: pa.Table | None) -> list[Partial]:
    rows = table.to_pylist() if table is not None else []
    found = ((_micros(row["_window_start"]), _micros(row["_window_end"]), row["k"], row["n"]) for row in rows)
    return sorted(found, key=repr)


def summed(rows: pa.Table) -> pa.Table:
    """As the SQL of merges and of combining has it: a row for each start, end and key."""
    names = ["_window_start", "_window_end", "k"]
    grouped = rows.group_by(names).aggregate([("n", "sum")]).rename_columns([*names, "n"])
    return grouped.cast(pa.schema([(name, rows.schema.field(name).type) for name in (*names, "n")]))


def sessions_of(partials: Iterable[Partial]) -> list[Partial]:
    """The sessions that partials are of: one by one is joined to those that it touches, until all are."""
    found: list[Partial] = []
    for start, end, key, number in partials:
        touching = [s for s in found if s[2] == key and s[0] <= end and start <= s[1]]
        found = [s for s in found if s not in touching]
        touching.append((start, end, key, number))
        found.append((min(s[0] for s in touching), max(s[1] for s in touching), key, sum(s[3] for s in touching)))
    return sorted(found, key=repr)


def _micros(instant: object) -> int:
    return int(pa.scalar(instant, TIMESTAMP).cast(pa.int64()).as_py())
