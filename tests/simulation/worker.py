"""`python -m tests.simulation.worker`: plays the plans that come on standard input, and answers with their outcomes.

A process plays some tens of worlds and ends at once: what was killed in them cannot be cleaned up.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, Popen

from tests.simulation.checks import Check
from tests.simulation.plan import Plan
from tests.simulation.schedule import Outcome, play

PLANS_TOGETHER = 100
"""Each leaves some megabytes behind; a new process takes a second and a half to begin, and remembers no epochs."""
ROOT = Path(__file__).parents[2]


def main() -> None:
    logging.disable(logging.WARNING)
    # What a world that is over has left is of no interest.
    logging.getLogger().addHandler(logging.NullHandler())
    plans: Sequence[Plan] = pickle.load(sys.stdin.buffer)
    for plan in plans:
        pickle.dump(play(plan), sys.stdout.buffer)
        sys.stdout.buffer.flush()
    os._exit(0)


def played(
    plans: Sequence[Plan],
    *,
    workers: int = 2,
    root: Path = ROOT,
    together: int = PLANS_TOGETHER,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Outcome]:
    """The outcomes of plans in their order, by the code of a checkout; a process plays some of them together."""

    def batch(some: Sequence[Plan]) -> list[Outcome]:
        return _batch(some, root, {**os.environ, **(environment or {})})

    batches = [plans[first : first + together] for first in range(0, len(plans), together)]
    with ThreadPoolExecutor(workers) as pool:
        for outcomes in pool.map(batch, batches):
            yield from outcomes


def _batch(plans: Sequence[Plan], root: Path, environment: Mapping[str, str]) -> list[Outcome]:
    """The outcomes; of a plan at which the process ended, that it did."""
    command = [sys.executable, "-m", "tests.simulation.worker"]
    with Popen(command, cwd=root, env=environment, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin:
            pickle.dump(list(plans), process.stdin)
        outcomes: list[Outcome] = []
        try:
            while len(outcomes) < len(plans):
                outcomes.append(pickle.load(process.stdout))
        except EOFError:
            code = process.wait()
            plan = plans[len(outcomes)]
            outcomes.append(Outcome(plan, "", 0, 0, 0.0, Check.NO_ERROR, f"the process ended with {code}"))
            outcomes += _batch(plans[len(outcomes) :], root, environment) if len(outcomes) < len(plans) else []
    return outcomes


if __name__ == "__main__":
    main()
