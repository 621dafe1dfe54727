"""The answers of statements."""

from __future__ import annotations

from dataclasses import dataclass

from master.views.queries import QueryView


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
    """A statement without a result, confirmed in one line."""

    text: str


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """The setting holds for the rest of the script; the client sends it again with the next script."""

    name: str
    value: str


Outcome = QueryView | Rows | Explained | Done | SettingChanged
