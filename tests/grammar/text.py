"""SQL in two dialects at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Both:
    """One piece of SQL: what Selat is given, and what means the same in DuckDB."""

    selat: str
    oracle: str

    @staticmethod
    def same(text: str) -> Both:
        """A piece that reads the same in both."""
        return Both(text, text)


def fill(template: str, *parts: Both) -> Both:
    """The template with its `{}` filled in, in both dialects."""
    return Both(
        template.format(*(part.selat for part in parts)),
        template.format(*(part.oracle for part in parts)),
    )


def joined(separator: str, parts: Sequence[Both]) -> Both:
    return Both(separator.join(p.selat for p in parts), separator.join(p.oracle for p in parts))
