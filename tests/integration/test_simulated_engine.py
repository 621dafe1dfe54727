"""The simulated worlds' engine gives what Spark gives: a cluster runs their queries on both, epoch by epoch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tests.simulation.record", "--compare")


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_every_epoch_of_a_cluster_gives_the_same_rows_on_both_engines(every: int) -> None:
    """In a process of its own, which ends in the middle of what the world's processes do."""
    ended = subprocess.run((*COMMAND, str(every)), cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    epochs, rest = ended.stdout.split(" ", 1)
    assert rest == "epochs are the same on both engines\n"
    assert int(epochs) > 200 / every
