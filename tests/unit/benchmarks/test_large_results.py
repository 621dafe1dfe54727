from __future__ import annotations

from pathlib import Path

from benchmarks.large_results import Outcome, arrow_bytes, sections, sums_of_files, write_table

SUMS = (1000, 499_500, 7)
MIB = 1 << 20


def text_of(*outcomes: Outcome) -> str:
    return "\n".join(sections([Outcome("plain", 10.0, SUMS), *outcomes], SUMS, 2 << 30))


def test_the_report_has_ratios_and_the_most_growth_of_each_role() -> None:
    text = text_of(
        Outcome("client", 16.0, SUMS, {"agent": 100 * MIB, "client": 30 * MIB}),
        Outcome("sink", 20.0, SUMS, {"agent": 200 * MIB}),
    )
    assert "| client | 16.0 | 62 | 0.62 | yes |" in text
    assert "| agent | 100 | 200 |" in text
    assert "| client | 30 | 0 |" in text
    assert text.count("Reached: yes.") == 2


def test_what_is_missed_or_wrong_is_told() -> None:
    text = text_of(Outcome("client", 21.0, (999, 499_500, 7), {"agent": 1025 * MIB}))
    assert "| client | 21.0 | 48 | 0.48 | **no** |" in text
    assert text.count("Reached: **no**.") == 2


def test_a_table_is_the_same_however_it_is_cut(tmp_path: Path) -> None:
    write_table(tmp_path / "a", 1000)
    rows, ids, _ = sums_of_files(tmp_path / "a")
    assert (rows, ids) == (1000, 499_500)
    assert arrow_bytes(20_000_000) > 2 << 30
