"""What outlives the death of an agent's process: which epochs were under way, and how often that has happened.

    crashes/state.json        number of this life of the process; what speaks against which task
    crashes/running-<life>/   the marks of the epochs under way; `ending`, if the process could say

Marks need to survive the process, not the machine, which may lose its power through nobody's fault; so they are not
synced. The rule is `planner.failures.crashes`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from planner.failures.crashes import (
    EPOCHS_ALONE,
    Ending,
    Suspicion,
    Verdict,
    judge,
    reason_of_failure,
    reason_to_wait,
    suspicions_after,
)
from site_agent.base import posix
from site_agent.base.durable import write_atomically
from site_agent.tasks.marks import Marks, marked

logger = logging.getLogger(__name__)

_STATE_FILE = "state.json"
_ENDING_FILE = "ending"


class Crashes:
    """The record of one process, whose sites die together. For its event loop; `told` is for any thread.

    Args:
        directory: Of the record, made when absent; None: nothing outlives the process, and no task is suspected.
        heap: Size of the JVM's heap, for reasons.
    """

    def __init__(self, directory: Path | None = None, *, heap: str = "") -> None:
        self._directory = directory
        self._heap = heap
        self._life = 0
        self._suspicions: Mapping[str, Suspicion] = {}
        self._running: Path | None = None
        self._marks: Marks | None = None
        if directory is not None:
            try:
                self._take_over(directory)
            except OSError as error:
                # A full disk keeps no agent from starting. What was judged holds; this life leaves no record.
                logger.warning("the record of crashes cannot be written: %s", error)
        self._alone = {t: EPOCHS_ALONE for t, s in self._suspicions.items() if judge(s) is Verdict.ALONE}
        self._turns = _Turns()

    def _take_over(self, directory: Path) -> None:
        """Judge the life before this one, once, and begin a new one."""
        directory.mkdir(parents=True, exist_ok=True)
        self._life, self._suspicions = _load(directory / _STATE_FILE)
        last = directory / f"running-{self._life}"
        if running := marked(last):
            ending = _ending(last / _ENDING_FILE)
            self._suspicions = suspicions_after(self._suspicions, running, ending)
            logger.warning("the last process ended (%s) in epochs of %s", ending.value, ", ".join(sorted(running)))
        self._life += 1
        # From here on, what the life before left is judged.
        write_atomically(directory / _STATE_FILE, self._state())
        for old in directory.glob("running-*"):
            posix.remove_tree(old)
        here = directory / f"running-{self._life}"
        here.mkdir(exist_ok=True)
        self._running, self._marks = here, Marks(here)

    @asynccontextmanager
    async def running(self, task_id: str) -> AsyncIterator[None]:
        """An epoch of the task is under way in the block; a suspect's begins when no other is. Not to be nested."""
        turn = self._turns.alone() if task_id in self._alone else self._turns.together()
        async with turn:
            with self._marked(task_id):
                yield

    def completed(self, task_id: str) -> None:
        """The task has completed an epoch: nothing speaks against it."""
        if task_id in self._alone:
            self._alone[task_id] -= 1
            if not self._alone[task_id]:
                del self._alone[task_id]
        self._forgive(task_id)

    def forget(self, task_id: str) -> None:
        """The task is gone for good."""
        self._alone.pop(task_id, None)
        self._forgive(task_id)

    def why_failed(self, task_id: str, site: str) -> str:
        """Why the task is not to run any more; empty: it is."""
        suspicion = self._suspicions.get(task_id)
        if suspicion is None or judge(suspicion) is not Verdict.FAILED:
            return ""
        return reason_of_failure(suspicion, site=site, heap=self._heap)

    def why_waiting(self, task_id: str) -> str:
        """Why the task's next epoch has to wait for others; empty: it need not."""
        suspicion = self._suspicions.get(task_id)
        return reason_to_wait(suspicion) if suspicion is not None and task_id in self._alone else ""

    def told(self, ending: Ending) -> None:
        """This process is about to end by itself, in that way."""
        if self._running is not None:
            with suppress(OSError):
                (self._running / _ENDING_FILE).write_text(ending.value)

    def stop(self) -> None:
        """This process was asked to end: however it does, no task is to blame."""
        if self._running is not None:
            posix.remove_tree(self._running)
            self._running = self._marks = None

    @contextmanager
    def _marked(self, task_id: str) -> Iterator[None]:
        marks = self._marks
        if marks is not None:
            marks.set(task_id)
        try:
            yield
        finally:
            if marks is not None:
                marks.clear(task_id)

    def _forgive(self, task_id: str) -> None:
        if task_id not in self._suspicions:
            return
        self._suspicions = {task: s for task, s in self._suspicions.items() if task != task_id}
        if self._directory is not None:
            try:
                write_atomically(self._directory / _STATE_FILE, self._state())
            except OSError as error:
                logger.warning("the record of crashes cannot be written: %s", error)

    def _state(self) -> bytes:
        suspicions = {task: {**asdict(s), "ending": s.ending.value} for task, s in sorted(self._suspicions.items())}
        return json.dumps({"life": self._life, "suspicions": suspicions}).encode()


class _Turns:
    """Many together, or one alone, in the order in which they come."""

    def __init__(self) -> None:
        self._door = asyncio.Lock()
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        async with self._door:
            self._inside += 1
            self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._door:
            await self._empty.wait()
            yield


def _load(path: Path) -> tuple[int, Mapping[str, Suspicion]]:
    """A record that cannot be read blames nobody."""
    try:
        content = json.loads(path.read_bytes())
        return int(content["life"]), {task: _suspicion(value) for task, value in content["suspicions"].items()}
    except FileNotFoundError:
        return 0, {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("%s is damaged and begun anew: %s", path, error)
        return 0, {}


def _suspicion(value: Mapping[str, Any]) -> Suspicion:
    return Suspicion(int(value["deaths"]), int(value["known"]), bool(value["alone"]), Ending(value["ending"]))


def _ending(path: Path) -> Ending:
    try:
        return Ending(path.read_text())
    except (OSError, ValueError):
        return Ending.SILENT
