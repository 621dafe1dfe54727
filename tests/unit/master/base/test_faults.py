from __future__ import annotations

from pathlib import Path

from master.base.faults import FAULT_VARIABLE, MARKS_VARIABLE, FaultPoint, parse_faults

DOCS = Path(__file__).parents[4] / "docs" / "operations.md"


def test_faults_are_those_of_the_master_that_the_environment_names(tmp_path: Path) -> None:
    assert parse_faults({}) is None
    assert parse_faults({FAULT_VARIABLE: "epoch-written:3"}) is None
    environment = {FAULT_VARIABLE: "epoch-written:3,query-stored:2", MARKS_VARIABLE: str(tmp_path)}
    deaths = []
    for _ in range(2):
        faults = parse_faults(environment)
        assert faults is not None
        deaths.append([faults.passed(FaultPoint.QUERY_STORED) for _ in range(3)])
    assert deaths == [[False, True, False], [False, False, False]]


def test_every_point_is_documented() -> None:
    text = DOCS.read_text()
    assert [point.value for point in FaultPoint if f"| `{point.value}` |" not in text] == []
