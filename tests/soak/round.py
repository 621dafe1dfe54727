"""Rounds on one cluster. After a round that failed its state is kept, and a new cluster is started."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import selat
from tests.e2e.faults import Scene, running_scene
from tests.e2e.pushing import PATIENCE
from tests.soak.asking import declare
from tests.soak.diagnosis import diagnosis
from tests.soak.faults import Faults, await_everything
from tests.soak.plan import Kind, Plan
from tests.soak.report import Round
from tests.soak.streams import Producers
from tests.soak.work import Work, sold_ddl

FAULTS_S = 400.0
"""The longest time for the faults of a round and for actions that wait for their end."""
LIVENESS_S = 240.0
"""From the last fault on, the longest time without progress until all results are delivered."""
DELIVERY_S = 900.0
"""The longest time from the last fault until all results are delivered, with progress or without."""
CAUGHT_UP_S = 120.0
"""The longest time from a producer's silence until results go on without it."""
LEFT_S = 60.0
"""The longest time from the end of the last query until nothing of the round is left."""
_POLL_S = 0.2


class StuckError(AssertionError):
    """Something did not happen in time."""


class Stage:
    """The cluster of the rounds, started when it is needed."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        """
        Args:
            root: Directory for input, logs and state; removed at the end when no round failed.
            say: Prints the report on a round that failed.
        """
        self._root = root
        self._say = say
        self._cluster = ExitStack()
        self._scene: Scene | None = None
        self._clusters = 0
        self._kept = False

    def play(self, plan: Plan) -> Round:
        """Run a plan and compare its results with the oracle's."""
        begun_s = time.monotonic()
        coverage, faults, rows = plan.coverage(), tuple(str(fault) for fault in plan.faults), 0
        try:
            scene = self._running()
            round_ = _Round(scene, plan, self._directory)
            try:
                rows, wrong = round_.play()
            finally:
                coverage, faults = coverage + round_.covered(), tuple(round_.faults.told)
        except (AssertionError, selat.SelatError, OSError) as error:
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            self._keep(plan.seed, wrong)
        return Round(plan.seed, dict(coverage), faults, time.monotonic() - begun_s, rows, "; ".join(wrong))

    @property
    def _directory(self) -> Path:
        return self._root / f"cluster-{self._clusters}"

    def _running(self) -> Scene:
        if self._scene is None:
            self._clusters += 1
            self._scene = self._cluster.enter_context(running_scene(self._directory, agent_arguments=()))
            with selat.connect(self._scene.cluster.address) as client:
                declare(client, sold_ddl(self._scene.dataset))
        return self._scene

    def _keep(self, seed: int, wrong: list[str]) -> None:
        """Report the differences and the cluster's state, end the cluster and keep its directory."""
        self._say("\n".join([f"seed {seed}:", *wrong]))
        if self._scene is not None:
            self._say(diagnosis(self._scene.cluster))
        self._say(f"kept: {self._directory}")
        self._kept = True
        self._scene = None
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.close()
        if not self._kept:
            shutil.rmtree(self._root, ignore_errors=True)


class _Round:
    """Queries, producers and faults, each on a thread of its own."""

    def __init__(self, scene: Scene, plan: Plan, directory: Path) -> None:
        self._scene = scene
        self._client = selat.connect(scene.cluster.address, reconnect=PATIENCE)
        self._work = Work(self._client, scene, plan, directory, label=f"r{plan.seed}")
        self.faults = Faults(scene, plan.faults)
        self._producers: Producers | None = None
        if Kind.PUSH in plan.kinds:
            address, stream = scene.cluster.address, self._work.stream(Kind.PUSH)
            self._producers = Producers(address, stream, plan, self.faults.calm, self._caught_up)

    def play(self) -> tuple[int, list[str]]:
        """Run the round. Returns the number of result rows, and the differences. Raises StuckError."""
        with self._client:
            await_everything(self._scene)
            self._work.declare()
            threads = [threading.Thread(target=part.run, daemon=True) for part in self._parts()]
            try:
                for thread in threads:
                    thread.start()
                self._work.run()
                self._await("the last fault", lambda: self._ended() or not threads[0].is_alive(), FAULTS_S)
                self._await_end()
            finally:
                for part in self._parts():
                    part.stop.set()
            for thread in threads:
                thread.join(LIVENESS_S)
            self._check_parts()
            await_everything(self._scene)
            rows, wrong = self._work.check()
            wrong += self._left()
            self._work.clear()
            return rows, wrong

    def _await_end(self) -> None:
        """Wait for queries and producers. A machine with other work takes long for a batch query of many tasks."""
        deadline, done = time.monotonic() + DELIVERY_S, self._work.done_so_far()
        while True:
            try:
                return self._await("queries and producers to end", self._ended, LIVENESS_S)
            except StuckError:
                before, done = done, self._work.done_so_far()
                if done == before or time.monotonic() > deadline:
                    raise

    def _left(self) -> list[str]:
        """Descriptions of everything of the round that does not go away."""
        try:
            self._await("nothing to be left", lambda: not self._work.left(), LEFT_S)
        except StuckError:
            return [f"left: {what}" for what in self._work.left()]
        return []

    def covered(self) -> Counter[str]:
        """The features that occurred in addition to the planned ones."""
        naps = self._producers.naps if self._producers is not None else 0
        return self._work.done + Counter({"nap that results went on without": naps})

    def _parts(self) -> list[Faults | Producers]:
        return [self.faults, *([self._producers] if self._producers is not None else [])]

    def _ended(self) -> bool:
        self._check_parts()
        return self._work.over()

    def _check_parts(self) -> None:
        for part in self._parts():
            if part.failure is not None:
                raise StuckError(f"{type(part).__name__}: {part.failure}")

    def _caught_up(self, instant: datetime, awake: frozenset[str]) -> None:
        behind: list[str] = []

        def none_behind() -> bool:
            nonlocal behind
            with suppress(selat.SelatError):
                behind = self._work.behind(instant, awake)
                return not behind
            return False

        try:
            self._await(f"watermarks past {instant}", none_behind, CAUGHT_UP_S)
        except StuckError as error:
            raise StuckError(f"{error}: {behind}") from None

    def _await(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise StuckError(f"waited {timeout_s:.0f} s for {what}")
            time.sleep(_POLL_S)
