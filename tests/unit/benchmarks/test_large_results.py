from __future__ import annotations

from pathlib import Path

from benchmarks.large_results import Outcome, arrow_bytes, findings, sections, sums_of_files, write_table

SUMS = (1000, 499_500, 7)
MIB = 1 << 20


OUTCOMES = [
    Outcome("picked", "plain Spark", 10.0, SUMS),
    Outcome("picked", "Selat to a client", 16.0, SUMS, {"agent": 100 * MIB, "client": 30 * MIB}),
    Outcome("computed", "plain Spark", 30.0, SUMS),
    Outcome("computed", "Selat to a Parquet sink", 20.0, (999, 499_500, 7), {"agent": 200 * MIB}),
]
WANTED = {"picked": SUMS, "computed": SUMS}


def test_the_report_has_ratios_and_the_most_growth_of_each_role() -> None:
    text = "\n".join(sections(OUTCOMES, WANTED, 2 << 30))
    assert "| picked | Selat to a client | 16.0 | 62 | 0.62 | yes |" in text
    assert "| computed | Selat to a Parquet sink | 20.0 | 50 | 1.50 | **no** |" in text
    assert "| agent | 100 | 200 |" in text
    assert "| client | 30 | 0 |" in text


def test_criteria_are_held_against_each_query_and_way() -> None:
    found = findings(OUTCOMES, WANTED)
    assert found == {"picked_client": 0.625, "computed_sink": 1.5, "right": 1.0, "memory": 200.0}


def test_a_table_is_the_same_however_it_is_cut(tmp_path: Path) -> None:
    write_table(tmp_path / "a", 1000)
    rows, ids, _ = sums_of_files(tmp_path / "a")
    assert (rows, ids) == (1000, 499_500)
    assert arrow_bytes(20_000_000) > 2 << 30
