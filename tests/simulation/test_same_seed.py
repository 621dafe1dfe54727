"""The same seed plays the same world: in another process, with other hashes and addresses, and after other worlds."""

from __future__ import annotations

import subprocess
import sys

from tests.simulation.plan import Plan, drawn
from tests.simulation.schedule import Outcome
from tests.simulation.worker import ROOT, played

SEEDS = range(8)


def _played(plans: list[Plan], hash_seed: str) -> dict[int, Outcome]:
    outcomes = played(plans, workers=1, environment={"PYTHONHASHSEED": hash_seed})
    return {outcome.plan.seed: outcome for outcome in outcomes}


def test_two_processes_have_the_same_traces_byte_for_byte() -> None:
    plans = [drawn(seed) for seed in SEEDS]
    first, second = _played(plans, "1"), _played(plans[::-1], "2")
    different = [seed for seed in SEEDS if first[seed].digest != second[seed].digest]
    assert different == [], f"`python -m tests.simulation --compare {different[0]}` prints the first line that differs"
    assert len({outcome.digest for outcome in first.values()}) == len(SEEDS)


def test_a_seed_draws_the_same_plan_always() -> None:
    assert [drawn(seed) for seed in SEEDS] == [drawn(seed) for seed in SEEDS]
    assert len({drawn(seed) for seed in SEEDS}) == len(SEEDS)


def test_a_drawn_query_is_the_same_in_every_process() -> None:
    """Another process than the one that asks Spark about it plays it."""
    told = "from tests.simulation.drawntables import *; print([text(name(seed, 0)) for seed in range(300)])"
    texts = [
        subprocess.run(
            [sys.executable, "-c", told], cwd=ROOT, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) > 10_000
