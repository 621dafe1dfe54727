from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from planner.batch import Policy, SkipRule
from simulator.awan.figures import EQUALLY_FAST_S, LEASE, mixed
from simulator.awan.framework import THINK_S, Scheduling, TaskRun
from simulator.awan.models import Model
from simulator.awan.run import Setup, run, run_rounds
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
    outcome = run(world, Setup(model, mixed()), 1)
    wanted = Counter(task.name for job in world.jobs for task in job.tasks)
    assert Counter(run.task.name for run in outcome.tasks) == wanted
    for tasks in by_node(outcome.tasks).values():
        assert all(first.end_s <= second.start_s for first, second in pairwise(tasks))
    assert all(run.turnaround_s > 0 for run in outcome.jobs)


def test_the_same_seed_is_the_same_run(model: Model) -> None:
    assert run(World(SMALL, 2), Setup(model, mixed()), 2) == run(World(SMALL, 2), Setup(model, mixed()), 2)


@pytest.mark.parametrize("refresh_s", [3.0, 20.0])
def test_direct_access_on_copies_runs_every_task_once(refresh_s: float) -> None:
    world = World(SMALL, 6)
    outcome = run(world, Setup(Model.DIRECT, mixed(), refresh_s), 6)
    assert len(outcome.tasks) == len({run.task.name for run in outcome.tasks}) == sum(len(j.tasks) for j in world.jobs)
    for tasks in by_node(outcome.tasks).values():
        assert all(first.end_s <= second.start_s for first, second in pairwise(tasks))


def test_who_works_on_an_old_copy_starts_later() -> None:
    shares = {
        refresh_s: sum(
            run(World(SMALL, seed), Setup(Model.DIRECT, mixed(), refresh_s), seed).turnaround_s for seed in range(4)
        )
        for refresh_s in (0.0, 60.0)
    }
    assert shares[0.0] < shares[60.0]


def test_jobs_posted_at_once_meet_in_one_framework() -> None:
    outcome = run(World(replace(SMALL, posted_at_once=2), 1), Setup(Model.LEASE, mixed()), 1)
    owners = {job.name: job.framework for job in outcome.jobs}
    assert owners["r0j0"] == owners["r0j1"] != owners["r0j2"] == owners["r0j3"]


def test_no_framework_always_answers_first() -> None:
    """Two frameworks get a job at the same moment, and there is one slot."""
    settings = replace(SMALL, jobs=2, gap_s=1e-6, compute_nodes=1)
    fastest = set()
    for seed in range(20):
        outcome = run(World(settings, seed), Setup(Model.DIRECT, mixed()), seed)
        fastest.add(min(outcome.tasks, key=lambda task: task.start_s).task.job)
    assert fastest == {"r0j0", "r0j1"}


@pytest.mark.parametrize("anew", [False, True])
def test_frameworks_keep_their_history_unless_they_begin_anew(*, anew: bool) -> None:
    outcome = run_rounds(replace(SMALL, jobs=3), Setup(Model.LEASE, mixed()), 1, 3, anew=anew)
    assert len(outcome.jobs) == len({job.name for job in outcome.jobs}) == 9
    uninformed = {task.task.job[:2] for task in outcome.tasks if not task.informed}
    assert uninformed == ({"r0", "r1", "r2"} if anew else {"r0"})


def test_rounds_have_the_same_nodes_and_other_jobs() -> None:
    first, second = World(SMALL, 1, 0), World(SMALL, 1, 1)
    near = [[w.is_near(s, c) for s in w.storage for c in w.compute] for w in (first, second)]
    assert near[0] == near[1]
    assert [job.at_s for job in first.jobs] != [job.at_s for job in second.jobs]


def test_nodes_with_two_slots_run_two_tasks(model: Model) -> None:
    outcome = run(World(replace(SMALL, slots_each=2), 3), Setup(model, mixed()), 3)
    for tasks in by_node(outcome.tasks).values():
        for task in tasks:
            assert sum(other.start_s <= task.start_s < other.end_s for other in tasks) <= 2


def test_the_future_is_known_when_it_is_said_to_be() -> None:
    outcome = run(World(SMALL, 4), Setup(Model.LEASE, mixed(knows_all=True)), 4)
    for task in outcome.of(LEASE).tasks:
        assert task.actual_s == pytest.approx(task.predicted_s, abs=0.01)


def test_a_job_that_may_not_start_is_skipped_for_ten_seconds_at_most() -> None:
    """One job, no other: with a locality that it cannot have, it starts that much later."""
    settings = replace(SMALL, jobs=1, isolated_storage_nodes=6)
    for least, late_s in ((0.0, 0.0), (1.0, 10.0)):
        frameworks = {"only": Scheduling(Policy.LEASE, SkipRule(least=least))}
        world = World(settings, 5)
        first_s = min(task.start_s for task in run(world, Setup(Model.LEASE, frameworks), 5).tasks)
        assert first_s - world.jobs[0].at_s == pytest.approx(late_s, abs=0.5)


def test_waiting_for_slots_makes_tasks_local() -> None:
    shares = {
        model: sum(run(World(SMALL, seed), Setup(model, mixed()), seed).of(LEASE).local_share for seed in range(6))
        for model in (Model.LEASE, Model.DIRECT)
    }
    assert shares[Model.LEASE] > shares[Model.DIRECT]


def test_where_all_think_equally_fast_the_first_framework_wins_every_race() -> None:
    """The first framework is the lease-aware one, whose jobs then end sooner under direct access."""

    def turnaround_s(think_s: tuple[float, float]) -> float:
        setup = Setup(Model.DIRECT, mixed(), think_s=think_s)
        return sum(run(World(WorldSettings(), seed), setup, seed).of(LEASE).turnaround_s for seed in range(2))

    assert turnaround_s(EQUALLY_FAST_S) < 0.9 * turnaround_s(THINK_S)


def test_local_tasks_are_faster_in_every_world() -> None:
    outcome = run(World(WorldSettings(), 0), Setup(Model.LEASE, mixed()), 0)
    local = [task.actual_s for task in outcome.tasks if task.local]
    remote = [task.actual_s for task in outcome.tasks if not task.local]
    assert 40 <= sum(local) / len(local) <= 60
    assert sum(remote) / len(remote) > 100
