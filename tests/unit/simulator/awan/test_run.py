from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from planner.batch import Policy, SkipRule
from simulator.awan.figures import LEASE, mixed
from simulator.awan.framework import Scheduling, TaskRun
from simulator.awan.models import Model
from simulator.awan.run import run
from simulator.awan.world import World, WorldSettings

SMALL = WorldSettings(compute_nodes=8, storage_nodes=6, cities=3, jobs=4, gap_s=30.0, job_chunks=(4, 8))


@pytest.fixture(scope="module", params=list(Model), ids=lambda model: model.value)
def model(request: pytest.FixtureRequest) -> Model:
    found: Model = request.param
    return found


def by_node(tasks: tuple[TaskRun, ...]) -> dict[str, list[TaskRun]]:
    nodes: dict[str, list[TaskRun]] = {}
    for task in sorted(tasks, key=lambda t: t.start_s):
        nodes.setdefault(task.node, []).append(task)
    return nodes


def test_every_task_runs_once_and_no_slot_has_two(model: Model) -> None:
    world = World(SMALL, 1)
    outcome = run(world, model, mixed(), 1)
    wanted = Counter(task.name for job in world.jobs for task in job.tasks)
    assert Counter(run.task.name for run in outcome.tasks) == wanted
    for tasks in by_node(outcome.tasks).values():
        assert all(first.end_s <= second.start_s for first, second in pairwise(tasks))
    assert all(run.turnaround_s > 0 for run in outcome.jobs)


def test_the_same_seed_is_the_same_run(model: Model) -> None:
    assert run(World(SMALL, 2), model, mixed(), 2) == run(World(SMALL, 2), model, mixed(), 2)


def test_nodes_with_two_slots_run_two_tasks(model: Model) -> None:
    outcome = run(World(replace(SMALL, slots_each=2), 3), model, mixed(), 3)
    for tasks in by_node(outcome.tasks).values():
        for task in tasks:
            assert sum(other.start_s <= task.start_s < other.end_s for other in tasks) <= 2


def test_the_future_is_known_when_it_is_said_to_be() -> None:
    outcome = run(World(SMALL, 4), Model.LEASE, mixed(knows_all=True), 4)
    for task in outcome.of(LEASE).tasks:
        assert task.actual_s == pytest.approx(task.predicted_s, abs=0.01)


def test_a_job_that_may_not_start_is_skipped_for_ten_seconds_at_most() -> None:
    """One job, no other: with a locality that it cannot have, it starts that much later."""
    settings = replace(SMALL, jobs=1, isolated_storage_nodes=6)
    for least, late_s in ((0.0, 0.0), (1.0, 10.0)):
        frameworks = {"only": Scheduling(Policy.LEASE, SkipRule(least=least))}
        world = World(settings, 5)
        first_s = min(task.start_s for task in run(world, Model.LEASE, frameworks, 5).tasks)
        assert first_s - world.jobs[0].at_s == pytest.approx(late_s, abs=0.5)


def test_waiting_for_slots_makes_tasks_local() -> None:
    shares = {
        model: sum(run(World(SMALL, seed), model, mixed(), seed).of(LEASE).local_share for seed in range(6))
        for model in (Model.LEASE, Model.DIRECT)
    }
    assert shares[Model.LEASE] > shares[Model.DIRECT]


def test_local_tasks_are_faster_in_every_world() -> None:
    outcome = run(World(WorldSettings(), 0), Model.LEASE, mixed(), 0)
    local = [task.actual_s for task in outcome.tasks if task.local]
    remote = [task.actual_s for task in outcome.tasks if not task.local]
    assert 40 <= sum(local) / len(local) <= 60
    assert sum(remote) / len(remote) > 100
