"""NEXMark over streams that are born at several sites: its texts, and a run of them beside DuckDB."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TEXTS = Path(__file__).parents[2] / "examples" / "nexmark"
STREAMS = TEXTS / "streams.sql"
_ROWS = re.compile(r"'rows' = '(\d+)'")


@dataclass(frozen=True, slots=True)
class Text:
    """One of NEXMark's queries as Selat takes it, and the same question to DuckDB."""

    name: str
    sql: str
    oracle: str


def queries() -> dict[str, Text]:
    """The 23 texts by name, as in `q0`, in the order of their numbers."""
    return {f"q{number}": _text(f"q{number}") for number in range(23)}


def scaled(script: str, scale: int) -> str:
    """The same statements with so many times as many rows."""
    return _ROWS.sub(lambda found: f"'rows' = '{int(found[1]) * scale}'", script)


def _text(name: str) -> Text:
    sql = (TEXTS / f"{name}.sql").read_text()
    return Text(name, sql, _oracles()[name])


def _oracles() -> dict[str, str]:
    parts = Path(__file__).with_name("oracle.sql").read_text().split("\n-- q")[1:]
    return {f"q{name}": sql.strip() for name, _, sql in (part.partition("\n") for part in parts)}
