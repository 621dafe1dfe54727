from __future__ import annotations

from pathlib import Path

from evidence.page import read_page
from evidence.provenance import code_at_start
from simulator.pages import write_evaluation


def test_an_evaluation_is_one_section_with_its_run_behind_the_head(tmp_path: Path) -> None:
    page = write_evaluation(tmp_path / "results" / "awan.md", ["# Slots\n\nWhat it is.", "## Figure"])
    (section,) = read_page(page)
    assert (section.name, section.commit) == ("awan", str(code_at_start()))
    assert section.text.startswith("# Slots\n\nWhat it is.\n\n- Commit: ")
    assert "- Command: `python -m simulator" in section.text
    assert section.text.endswith("## Figure")
