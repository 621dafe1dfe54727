from __future__ import annotations

import pytest

from planner.failures.crashes import Ending
from site_agent.engine.jvm.lifeline import ending_of


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        (52, Ending.HEAP),
        (3, Ending.HEAP),
        (-9, Ending.SILENT),
        (143, Ending.SILENT),
        (-6, Ending.JVM),
        (134, Ending.JVM),
        (-11, Ending.JVM),
        (1, Ending.JVM),
    ],
)
def test_what_the_exit_code_of_a_jvm_says(code: int, ending: Ending) -> None:
    assert ending_of(code) is ending
