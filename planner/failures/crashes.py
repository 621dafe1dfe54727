"""Whose fault it is when a site agent's process ends, and what follows for its tasks.

All that is known of such a death is which tasks had an epoch under way, and often not even why it came. One of them may
take the process down whenever it runs, and the others only happened to run beside it. So a death makes suspects of all
of them; an epoch that is completed clears its task; and a task that was there at two deaths in a row, without an epoch
between, has its next epochs run with nothing beside them. Only a death in such an epoch can fail a task: whoever fails
has ended the process alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

ALONE_FROM = 2
"""So many deaths in a row, and a task's epochs run alone."""
FAILED_FROM = 3
"""So many deaths of known cause, the last of them alone, and the task has failed."""
FAILED_FROM_SILENT = 6
"""The same, of any cause: a process that was killed may have been killed by people, who had other reasons."""
EPOCHS_ALONE = 100
"""So many epochs a task goes on alone once it has completed one: two tasks that each fit into the heap, but not both at
once, would else end the process again at once."""


class Ending(Enum):
    """How a process ended, as far as it could say."""

    HEAP = "heap"
    """Its JVM had no more heap."""
    JVM = "jvm"
    """Its JVM crashed."""
    SILENT = "silent"
    """It, or its JVM, was killed: by somebody, by the kernel for want of memory, or by native code."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What speaks against a task: deaths in which its epoch was under way, since the last that it completed."""

    deaths: int
    known: int
    """Of these, those of which the cause is known."""
    alone: bool
    """At the last of them nothing else ran."""
    ending: Ending
    """Of the last of them."""


class Verdict(Enum):
    """How a task is to run."""

    TOGETHER = "together"
    ALONE = "alone"
    FAILED = "failed"


def suspicions_after(
    before: Mapping[str, Suspicion], running: Collection[str], ending: Ending
) -> Mapping[str, Suspicion]:
    """By task, after a death while the epochs of `running` were under way; a task that was not there keeps its own."""
    after = dict(before)
    for task in sorted(running):
        earlier = before.get(task)
        after[task] = Suspicion(
            deaths=(earlier.deaths if earlier else 0) + 1,
            known=(earlier.known if earlier else 0) + (ending is not Ending.SILENT),
            alone=len(running) == 1,
            ending=ending,
        )
    return after


def judge(suspicion: Suspicion | None) -> Verdict:
    """What follows from it; None: nothing speaks against the task."""
    if suspicion is None or suspicion.deaths < ALONE_FROM:
        return Verdict.TOGETHER
    guilty = suspicion.known >= FAILED_FROM or suspicion.deaths >= FAILED_FROM_SILENT
    return Verdict.FAILED if guilty and suspicion.alone else Verdict.ALONE


def reason_of_failure(suspicion: Suspicion, *, site: str, heap: str) -> str:
    """What users read of a task that has failed; `heap` is the size of the JVM's heap, as in `1g`."""
    count = f"{suspicion.deaths} times in a row while it ran, at last with nothing beside it"
    match suspicion.ending:
        case Ending.HEAP:
            return (
                f"the heap of site {site} ({heap}) was too small {count}"
                " (give its agent more with --driver-memory, or have fewer or smaller rows in an epoch or a window)"
            )
        case Ending.JVM:
            return f"the JVM of site {site} crashed {count} (its jvm.out and spark.log say more)"
        case Ending.SILENT:
            return (
                f"the agent of site {site} was killed {count}"
                " (by the kernel, if the machine has too little memory: give it more, or have fewer rows in a window)"
            )


def reason_to_wait(suspicion: Suspicion) -> str:
    """What users read of a task that is to run alone, and waits for others to pause."""
    return f"the agent ended {suspicion.deaths} times in a row while it ran: its next epoch waits to run alone"
