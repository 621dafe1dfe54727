from __future__ import annotations

from pathlib import Path

from site_agent.base.faults import FAULT_VARIABLE, MARKS_VARIABLE, FaultPoint, parse_faults

DOCS = Path(__file__).parents[4] / "docs" / "operations.md"


def test_without_the_variable_there_are_none() -> None:
    assert parse_faults({}) is None
    assert parse_faults({FAULT_VARIABLE: ""}) is None


def test_the_passage_that_was_asked_for_counts_and_no_other_point() -> None:
    faults = parse_faults({FAULT_VARIABLE: "epoch-written:3, query-stored:1"})
    assert faults is not None
    assert not faults.passed(FaultPoint.EPOCH_RENAMED)
    assert [faults.passed(FaultPoint.EPOCH_WRITTEN) for _ in range(4)] == [False, False, True, False]


def test_points_of_the_master_are_none_of_ours() -> None:
    assert parse_faults({FAULT_VARIABLE: "query-stored:1"}) is None


def test_with_a_directory_for_marks_only_the_first_process_dies(tmp_path: Path) -> None:
    environment = {FAULT_VARIABLE: "epoch-written", MARKS_VARIABLE: str(tmp_path)}
    deaths = []
    for _ in range(3):
        faults = parse_faults(environment)
        assert faults is not None
        deaths.append(faults.passed(FaultPoint.EPOCH_WRITTEN))
    assert deaths == [True, False, False]
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-written"]


def test_every_point_is_documented() -> None:
    text = DOCS.read_text()
    assert [point.value for point in FaultPoint if f"| `{point.value}` |" not in text] == []
