"""Parts of tables, as tasks of batch queries read them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FilePart:
    """Lines of a text file that begin in a range of its bytes, or row groups of Parquet that have their middle there.

    A line, here, ends with a line feed; the record of a CSV header belongs to no part, and heads each of them. A part
    of a CSV file begins and ends between records. Without a path: the rows of a generated table with these numbers.
    """

    path: str
    offset: int
    length: int


NOTHING = FilePart("", 0, 0)
"""The only part of a split without rows: the table has some, but none that is needed."""
