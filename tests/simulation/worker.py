"""`python -m tests.simulation.worker`: plays the plans that come on standard input, and answers with their outcomes.

A process plays some hundreds of worlds and ends at once: what was killed in them cannot be cleaned up.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory

from tests.simulation.checks import Check
from tests.simulation.plan import Plan
from tests.simulation.schedule import Outcome, play
from tests.simulation.world import MEMO, SHARED

PLANS_TOGETHER = 200
"""Each leaves some megabytes behind; a new process takes seconds to begin."""
ROOT = Path(__file__).parents[2]


def main() -> None:
    logging.disable(logging.WARNING)
    # What a world that is over has left is of no interest.
    logging.getLogger().addHandler(logging.NullHandler())
    gc.disable()
    while True:
        try:
            plan: Plan = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)
        pickle.dump(play(plan), sys.stdout.buffer)
        sys.stdout.buffer.flush()
        MEMO.share()
        # The collector examines what a world leaves behind once, and not again with each one that follows.
        gc.collect()
        gc.freeze()


def played(
    plans: Iterable[Plan],
    *,
    workers: int = 2,
    root: Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Outcome]:
    """The outcomes of plans in their order, by the code of a checkout. Plans are taken as processes have time for
    them; once nobody asks for more outcomes, no other plan begins."""
    waiting = iter(plans)
    idle: SimpleQueue[_Player] = SimpleQueue()
    with ExitStack() as stack:
        shared = stack.enter_context(TemporaryDirectory(prefix="selat-simulation-"))
        around = {**os.environ, SHARED: shared, **(environment or {})}
        for player in [_Player(root, around) for _ in range(workers)]:
            idle.put(player)
            stack.callback(player.stop)
        pool = stack.enter_context(ThreadPoolExecutor(workers))

        def one(plan: Plan) -> Outcome:
            player = idle.get()
            try:
                return player.play(plan)
            finally:
                idle.put(player)

        under_way: list[Future[Outcome]] = [pool.submit(one, plan) for plan in islice(waiting, workers)]
        while under_way:
            # One ahead for each process: an outcome that is late keeps the others waiting to be told, not to be played.
            under_way += [pool.submit(one, plan) for plan in islice(waiting, 2 * workers - len(under_way))]
            yield under_way.pop(0).result()


class _Player:
    """A process that plays plans, and is replaced now and then."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self._root, self._environment = root, environment
        self._process: Popen[bytes] | None = None
        self._left = 0

    def play(self, plan: Plan) -> Outcome:
        """The outcome; of a plan at which the process ended, that it did."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        self._left -= 1
        try:
            pickle.dump(plan, process.stdin)
            process.stdin.flush()
            outcome: Outcome = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError):
            self._left = 0
            told = f"the process ended with {process.wait()}"
            return Outcome(plan, "", 0, 0, 0.0, Check.NO_ERROR, told)
        return outcome

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _running(self) -> Popen[bytes]:
        if self._process is None or not self._left:
            self.stop()
            command = [sys.executable, "-m", "tests.simulation.worker"]
            self._process = Popen(command, cwd=self._root, env=self._environment, stdin=PIPE, stdout=PIPE)
            self._left = PLANS_TOGETHER
        return self._process


if __name__ == "__main__":
    main()
