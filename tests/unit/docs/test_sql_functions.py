"""docs/sql.md lists the functions of the planner's table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from planner.functions.table import ALLOWED, REFUSED

PAGE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text()


def rows(table: Mapping[str, frozenset[str]]) -> list[str]:
    return [f"| {group} | {', '.join(f'`{name}`' for name in sorted(names))} |" for group, names in table.items()]


@pytest.mark.parametrize("row", [*rows(ALLOWED), *rows(REFUSED)], ids=lambda row: str(row)[2:30])
def test_the_page_has_each_group(row: str) -> None:
    assert row.replace("`|`", r"`\|`").replace("`||`", r"`\|\|`") in PAGE
