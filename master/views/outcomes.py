"""What a statement answers with."""

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
    """A statement that returns nothing, confirmed in one line."""

    text: str


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """Holds for the rest of the script; whoever sent it says it again with the next one."""

    name: str
    value: str


Outcome = QueryView | Rows | Explained | Done | SettingChanged
