"""Whether two engines give the same answer to a query of TPC-H."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal

TOLERANCE = 1e-6
"""Relative: a mean of decimals has 6 digits in Spark and is a double in DuckDB."""


def difference(found: Iterable[Sequence[object]], wanted: Iterable[Sequence[object]]) -> str | None:
    """The first difference between two answers, in any order of their rows; None when they are the same."""
    one, other = (sorted(map(_plain, rows), key=_sorted_by) for rows in (found, wanted))
    if len(one) != len(other):
        return f"{len(one)} rows, not {len(other)}"
    pairs = zip(one, other, strict=True)
    return next((f"{row}, not {right}" for row, right in pairs if not _same_row(row, right)), None)


def differing(rows: Iterable[Sequence[object]], all_rows: Iterable[Sequence[object]]) -> list[Sequence[object]]:
    """The rows that are not among the others, each of which counts once."""
    left: dict[str, list[Sequence[object]]] = {}
    for row in map(_plain, all_rows):
        left.setdefault(_exact(row), []).append(row)
    missing: list[Sequence[object]] = []
    for row in map(_plain, rows):
        others = left.get(_exact(row), [])
        same = next((number for number, other in enumerate(others) if _same_row(row, other)), None)
        if same is None:
            missing.append(row)
        else:
            del others[same]
    return missing


def _plain(row: Sequence[object]) -> tuple[object, ...]:
    return tuple(float(value) if isinstance(value, int | float | Decimal) else value for value in row)


def _sorted_by(row: Sequence[object]) -> str:
    """By what is equal in both, and where numbers are; then by numbers, as far as they are surely equal."""
    return f"{_exact(row)} {[f'{value:.3e}' for value in row if isinstance(value, float)]}"


def _exact(row: Sequence[object]) -> str:
    return str(["number" if isinstance(value, float) else value for value in row])


def _same_row(row: Sequence[object], right: Sequence[object]) -> bool:
    return len(row) == len(right) and all(map(_same, row, right))


def _same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return a == b
