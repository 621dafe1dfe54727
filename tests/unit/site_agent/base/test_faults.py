from __future__ import annotations

from pathlib import Path

from site_agent.base.faults import FaultPoint

DOCS = Path(__file__).parents[4] / "docs" / "operations.md"


def test_every_point_is_documented() -> None:
    text = DOCS.read_text()
    assert [point.value for point in FaultPoint if f"| `{point.value}` |" not in text] == []
