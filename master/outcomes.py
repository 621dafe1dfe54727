"""What a statement answers with."""

from __future__ import annotations

from dataclasses import dataclass

from master.views import QueryView


@dataclass(frozen=True, slots=True)
class Rows:
    """A small table of text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Explained:
    text: str
    json: str


@dataclass(frozen=True, slots=True)
class Done:
    """A statement that returns nothing, confirmed in one line."""

    text: str


Outcome = QueryView | Rows | Explained | Done
