"""The demo as a user runs it, on the real departures of 2013."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from selat.cli.output import human
from selat.demo.dataset import YEAR_IN_A_MINUTE
from tests.jvm import ENVIRONMENT

_LINK = re.compile(r"([\d.e+]+) [kMG]?bit/s of ~?([\d.e+]+) [kMG]bit/s, ([\d.]+ m?s), ([\d.]+ [kM]?B) in all")
"""Use, capacity, round trip and what crossed."""

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_the_demo_proves_itself() -> None:
    # At four times the speed of `make demo`: how long the year takes is no part of the proof.
    command = [sys.executable, "-m", "selat", "demo", "--json", "--speed", str(4 * YEAR_IN_A_MINUTE)]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)

    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert {q["name"]: q["matches_oracle"] for q in outcome["queries"]} == {
        "alerts": True,
        "delays": True,
        "seats": True,
        "wind": True,
        "worst_destinations": True,
    }
    assert all(q["rows"] > 100 for q in outcome["queries"])
    assert outcome["wan_bytes"] == sum(link["bytes"] for link in outcome["links"])
    _check_links(done.stderr, outcome)
    assert 0 < outcome["wan_bytes"] <= outcome["raw_bytes"] / 5


def _check_links(progress: str, outcome: dict[str, Any]) -> None:
    """All ordered pairs were shown while data flowed, and at the end with what crossed."""
    _, first, *later = progress.split("every link:")
    assert later, progress
    assert any(float(use) > 0 for use, *_ in _LINK.findall(first)), progress
    assert len(_LINK.findall(later[-1])) == 12, progress
    totals = {link["bytes"] for link in outcome["links"]}
    assert {human.size(size) for size in totals} <= {total for *_, total in _LINK.findall(later[-1])}
