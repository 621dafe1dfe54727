"""A figure of tasks is one entry of the table: with it alone, the figure is seen everywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.integration import added_figure

ROOT = Path(__file__).parents[2]
ENTRY = """    rows_spilled: int = _count(
        Traits(Unit.ROWS, "Rows written to disk.", metric="selat_task_spilled_rows", shown=Shown.QUERY)
    )


FIGURES"""


def test_one_entry_of_the_table_adds_a_figure(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "contract", tmp_path / "contract")
    table = tmp_path / "contract" / "figures.py"
    before, found, after = table.read_text().partition("\n\nFIGURES")
    assert found
    table.write_text(before + ENTRY + after)
    seen = subprocess.run(
        [sys.executable, "-m", added_figure.__name__, str(tmp_path / "state")],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert seen.returncode == 0, seen.stderr
    told = json.loads(seen.stdout.splitlines()[-1])
    assert told["value"] == 7
    header, row = (line for line in told["table"].splitlines() if " us " in line or "STATE" in line)
    assert "ROWS SPILLED" in header
    assert row.split().count("7") == 1
    assert sorted(task["rows_spilled"] for task in told["json"]["tasks"]) == [0, 7]
    assert "rows spilled" in told["analyze"]
    (stage,) = told["analyze_json"]["stages"]
    assert stage["rows_spilled"] == 7
    assert "selat_task_spilled_rows 7" in told["metrics"]
    assert (
        "| `rows_spilled` | rows | sum | `rows_spilled` | `selat_task_spilled_rows` | Rows written to disk. |"
        in (told["docs"])
    )
