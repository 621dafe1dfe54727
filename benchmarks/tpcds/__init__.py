"""TPC-DS over tables whose rows lie at several sites: data and texts, for tests against DuckDB."""

from __future__ import annotations

from pathlib import Path


def queries() -> dict[str, str]:
    """The 99 texts by number, as in `Q1`."""
    parts = Path(__file__).with_name("queries.sql").read_text().split("\n-- Q")[1:]
    found = (part.partition("\n") for part in parts)
    return {f"Q{number}": text.strip().rstrip(";") for number, _, text in found}
