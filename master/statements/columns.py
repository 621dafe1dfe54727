"""Columns of EXPLAIN ANALYZE: each is declared once, for its JSON, its cells and its line in docs/explain.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One field of the objects that are rows of a table."""

    name: str
    """Its name in JSON."""
    meaning: str
    value: Callable[[T], Any]
    """A plain value for JSON."""
    title: str = ""
    """The heading of its column in the text; empty: it is in the JSON only."""
    write: Callable[[Any], str] = str
    """Writes the cell of a value that is not None."""


@dataclass
class Columns(Generic[T]):
    """The columns of objects of one kind."""

    path: str
    """The place of the objects in the JSON, as in `links[]`."""
    fields: tuple[Column[T], ...]

    @property
    def titles(self) -> tuple[str, ...]:
        """The headings of the table."""
        return tuple(column.title for column in self.fields if column.title)

    def json(self, item: T) -> dict[str, Any]:
        """An object as plain values for JSON."""
        return {column.name: column.value(item) for column in self.fields}

    def cells(self, written: dict[str, Any]) -> tuple[str, ...]:
        """The row of an object that `json` returned."""
        values = ((column, written[column.name]) for column in self.fields if column.title)
        return tuple("-" if value is None else column.write(value) for column, value in values)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns as wide as their widest cell; numbers are right-aligned."""
    lines = [tuple(titles), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    aligned = ((_aligned(cell, width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return ["  ".join(cells).rstrip() for cells in aligned]


def _aligned(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)


def count(number: int) -> str:
    """`1,234`"""
    return f"{number:,}"


def rate(count_per_s: float) -> str:
    """`12.5/s`"""
    return f"{count_per_s:,.1f}/s"


def share(ratio: float) -> str:
    """`50%`"""
    return f"{ratio:.0%}"


def size(size_bytes: float) -> str:
    """`1.5 MB`; units are powers of 1000."""
    value, unit = float(size_bytes), 0
    while round(value, 1) >= 1000 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {_BYTE_UNITS[unit]}"


def size_per_s(bytes_per_s: float) -> str:
    """`1.5 MB/s`"""
    return f"{size(bytes_per_s)}/s"
