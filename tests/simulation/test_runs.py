"""A run over many seeds goes on where an earlier command was interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.checks import Check
from tests.simulation.faults import Cut
from tests.simulation.plan import Plan
from tests.simulation.runs import EVERY, Run
from tests.simulation.schedule import Outcome


def _outcome(seed: int, failed: Check | None = None) -> Outcome:
    plan = Plan(seed, faults=(Cut(1.0, "us", "eu"),))
    return Outcome(plan, "", 0, 3, 60.0, failed, "rows are missing" if failed else "")


def test_it_goes_on_after_the_last_seed_that_is_kept(tmp_path: Path) -> None:
    run = Run.begun(7, "abc", tmp_path / "kept")
    for _ in range(EVERY + 1):
        run.take(_outcome(run.next_seed))
    # The command is interrupted here: the last one was not stored, and is played again.
    again = Run.begun(7, "abc", tmp_path / "kept")
    assert again.next_seed == 7 + EVERY
    assert (again.tally.faults, again.tally.kinds["Cut"]) == (3 * EVERY, EVERY)
    again.keep()
    assert Run.begun(7, "abc", tmp_path / "kept").tally == again.tally


def test_a_failure_is_kept_at_once_as_people_read_it(tmp_path: Path) -> None:
    run = Run.begun(1, "abc", tmp_path)
    run.take(_outcome(1))
    run.take(_outcome(2, Check.RIGHT))
    assert "rows are missing" in (tmp_path / "seed-2.txt").read_text()
    assert Run.begun(1, "abc", tmp_path).tally.failed == [f"seed 2: {Check.RIGHT.value}: rows are missing"]


def test_a_run_is_of_one_code_and_one_first_seed(tmp_path: Path) -> None:
    Run.begun(1, "abc", tmp_path).keep()
    for first, code in ((1, "def"), (2, "abc")):
        with pytest.raises(SystemExit, match=r"commit abc from seed 1 on.*name another directory"):
            Run.begun(first, code, tmp_path)
    # Without a directory nothing is kept.
    run = Run.begun(1, "abc", None)
    run.take(_outcome(1, Check.RIGHT))
    run.keep()
