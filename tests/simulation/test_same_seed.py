"""The same seed plays the same world: in another process, with other hashes and addresses, and after other worlds."""

from __future__ import annotations

from tests.simulation.plan import Plan, drawn
from tests.simulation.schedule import Outcome
from tests.simulation.worker import played

SEEDS = range(20)


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
