from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.failures.crashes import (
    FAILED_FROM,
    FAILED_FROM_SILENT,
    Ending,
    Suspicion,
    Verdict,
    judge,
    reason_of_failure,
    suspicions_after,
)

TASKS = ("a", "b", "c", "d", "e")
LIMITS = {Ending.HEAP: FAILED_FROM, Ending.JVM: FAILED_FROM, Ending.SILENT: FAILED_FROM_SILENT}


class Site:
    """Some tasks end the process whenever they run; how the others fall beside them is left to chance."""

    def __init__(self, killers: Collection[str], ending: Ending, chance: Random) -> None:
        self._killers = killers
        self._ending = ending
        self._chance = chance
        self.suspicions: Mapping[str, Suspicion] = {}
        self.deaths = 0

    def verdicts(self, verdict: Verdict) -> list[str]:
        return [task for task in TASKS if judge(self.suspicions.get(task)) is verdict]

    def step(self) -> None:
        """Some epochs at a time: a suspect's alone, or those of some others together."""
        together, alone = self.verdicts(Verdict.TOGETHER), self.verdicts(Verdict.ALONE)
        turns = [[task] for task in alone]
        if together:
            turns.append(self._chance.sample(together, self._chance.randint(1, len(together))))
        running = self._chance.choice(turns)
        if set(running) & set(self._killers):
            self.deaths += 1
            self.suspicions = suspicions_after(self.suspicions, running, self._ending)
        else:
            self.suspicions = {task: s for task, s in self.suspicions.items() if task not in running}


@settings(max_examples=50)
@given(st.sets(st.sampled_from(TASKS)), st.sampled_from(Ending), st.randoms(use_true_random=False))
def test_exactly_those_fail_that_end_the_process_and_soon(killers: set[str], ending: Ending, chance: Random) -> None:
    site = Site(killers, ending, chance)
    while site.verdicts(Verdict.FAILED) != sorted(killers):
        site.step()
        assert set(site.verdicts(Verdict.FAILED)) <= killers

    assert site.deaths <= LIMITS[ending] * len(killers)


@given(st.lists(st.tuples(st.sets(st.sampled_from(TASKS), min_size=1), st.sampled_from(Ending))))
def test_nobody_fails_for_a_death_that_others_may_be_to_blame_for(deaths: list[tuple[set[str], Ending]]) -> None:
    suspicions: Mapping[str, Suspicion] = {}
    for running, ending in deaths:
        suspicions = suspicions_after(suspicions, running, ending)
        for task in running:
            failed = judge(suspicions[task]) is Verdict.FAILED
            assert not failed or running == {task}


def test_a_death_says_nothing_about_tasks_that_were_not_there() -> None:
    before = suspicions_after({}, ["a", "b"], Ending.HEAP)
    after = suspicions_after(before, ["b"], Ending.SILENT)

    assert after == {"a": Suspicion(1, 1, alone=False, ending=Ending.HEAP), "b": Suspicion(2, 1, True, Ending.SILENT)}
    assert before["b"].deaths == 1


def test_deaths_of_unknown_cause_take_longer_to_fail_a_task() -> None:
    suspicions: Mapping[str, Suspicion] = {}
    verdicts = []
    for _ in range(FAILED_FROM_SILENT):
        suspicions = suspicions_after(suspicions, ["a"], Ending.SILENT)
        verdicts.append(judge(suspicions["a"]))
    assert verdicts == [Verdict.TOGETHER, *[Verdict.ALONE] * (FAILED_FROM_SILENT - 2), Verdict.FAILED]


def test_the_reason_says_how_often_where_and_what_to_do() -> None:
    suspicion = Suspicion(3, 3, alone=True, ending=Ending.HEAP)
    reason = reason_of_failure(suspicion, site="eu", heap="1g")
    assert reason.startswith("the heap of site eu (1g) was too small 3 times in a row while it ran")
    assert "--driver-memory" in reason
