from __future__ import annotations

import json

import pytest

from evidence.criteria import Criterion, Direction, Finding, findings_from, findings_to, verdicts

FAST = Criterion("exchange.speed", "speed", Direction.AT_LEAST, 300, "MB/s", "the data plane")
LATE = Criterion("latency.median", "delay", Direction.AT_MOST, 3, "s", was="at most 5 s; 3 s is what people feel.")


@pytest.mark.parametrize(
    ("criterion", "value", "verdict"),
    [
        (FAST, 300.0, "reached"),
        (FAST, 299.999, "**missed** by 0.1%"),
        (FAST, 150.0, "**missed** by 50.0%"),
        (FAST, 0.0, "**missed** by 100.0%"),
        (LATE, 3.0, "reached"),
        (LATE, 6.0, "**missed** by 100.0%"),
    ],
)
def test_a_verdict_says_by_how_much(criterion: Criterion, value: float, verdict: str) -> None:
    assert Finding(value).verdict(criterion) == verdict


def test_every_criterion_has_a_line_measured_or_not() -> None:
    found = {"latency.median": Finding(2.0, "the machine was not quiet")}
    text = verdicts([FAST, LATE], found)
    assert "| speed | at least 300 MB/s |  | **no verdict**: not measured | the data plane |" in text
    assert "| delay | at most 3 s | 2 s | **no verdict**: the machine was not quiet |" in text
    assert text.endswith("Criteria that changed:\n\n- delay: at most 5 s; 3 s is what people feel.")
    assert "changed" not in verdicts([FAST], {})


def test_findings_go_through_json() -> None:
    found = {"a.b": Finding(1.5), "a.c": Finding(None, "why"), "a.d": Finding(2.0, "but")}
    assert findings_from(json.loads(json.dumps(findings_to(found)))) == found
