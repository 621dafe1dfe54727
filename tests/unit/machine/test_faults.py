from __future__ import annotations

from enum import Enum
from pathlib import Path

from machine.faults import FAULT_VARIABLE, MARKS_VARIABLE, parse_faults


class Point(Enum):
    WRITTEN = "written"
    RENAMED = "renamed"


def test_without_the_variable_there_are_none() -> None:
    assert parse_faults({}) is None
    assert parse_faults({FAULT_VARIABLE: ""}) is None


def test_the_passage_that_was_asked_for_counts_and_no_other_point() -> None:
    faults = parse_faults({FAULT_VARIABLE: "written:3, of-another-process:1"})
    assert faults is not None
    assert not faults.passed(Point.RENAMED)
    assert [faults.passed(Point.WRITTEN) for _ in range(4)] == [False, False, True, False]


def test_with_a_directory_for_marks_only_the_first_process_dies(tmp_path: Path) -> None:
    environment = {FAULT_VARIABLE: "written", MARKS_VARIABLE: str(tmp_path)}
    deaths = []
    for _ in range(3):
        faults = parse_faults(environment)
        assert faults is not None
        deaths.append(faults.passed(Point.WRITTEN))
    assert deaths == [True, False, False]
    assert [path.name for path in tmp_path.iterdir()] == ["written"]
