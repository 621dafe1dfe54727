from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from contract.tasks import TaskState
from planner.failures.crashes import Ending
from planner.values.stages import StageKind
from site_agent.tasks.context import TaskContext
from site_agent.tasks.crashes import Crashes
from site_agent.tasks.marks import Marks
from site_agent.tasks.spec import TaskSpec
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.batch import BatchSite

pytestmark = pytest.mark.timeout(20)

SPEC = TaskSpec("q.s1.hub", "q", "s1", StageKind.SOURCE, "", timedelta(0))
OTHER = replace(SPEC, task_id="q.s2.hub")


def suspects(directory: Path, *tasks: str) -> Crashes:
    """As they are after two processes that ended in these tasks."""
    for life in (1, 2):
        crashes = Crashes(directory)
        marks = Marks(directory / f"running-{life}")
        for task in tasks:
            marks.set(task)
        crashes.told(Ending.HEAP)
    return Crashes(directory)


def contexts(tmp_path: Path, crashes: Crashes) -> tuple[TaskContext, TaskContext]:
    site = BatchSite(tmp_path, TableEngine({}))
    first, second = (replace(site.context(spec), crashes=crashes) for spec in (SPEC, OTHER))
    return first, second


async def test_an_attempt_that_publishes_clears_the_task_and_another_does_not(tmp_path: Path) -> None:
    crashes = suspects(tmp_path / "crashes", SPEC.task_id)
    context, _ = contexts(tmp_path, crashes)

    async with context.attempt():
        pass
    assert crashes.why_waiting(SPEC.task_id)
    async with context.attempt():
        context.log.publish(0, pa.table({"n": [1]}), watermark_us=None)
    assert crashes.why_waiting(SPEC.task_id) == ""


async def test_a_suspect_says_what_it_waits_for_and_then_what_it_said_before(tmp_path: Path) -> None:
    context, other = contexts(tmp_path, suspects(tmp_path / "crashes", SPEC.task_id))
    context.progress.enter(TaskState.RUNNING)

    async def attempt() -> TaskState:
        async with context.attempt():
            return context.progress.state

    async with other.attempt():
        waiting = asyncio.create_task(attempt())
        for _ in range(5):
            await asyncio.sleep(0)
        assert context.progress.state is TaskState.RETRYING
        assert "its next epoch waits to run alone" in context.progress.reason
    assert await waiting is TaskState.RUNNING
    assert context.progress.reason == ""
