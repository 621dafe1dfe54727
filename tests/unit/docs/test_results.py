"""Pages of results are as their commands wrote them, and say of which commit they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.page import HEAD, origins, read_page

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_is_as_tools_wrote_it(page: Path) -> None:
    sections = read_page(page)
    assert sections
    if len(sections) > 1:
        assert sections[0].name == HEAD
        assert origins(sections) in sections[0].text
