from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from contract.tasks import TaskState
from planner.values.stages import StageKind
from site_agent.base.errors import (
    ConnectorError,
    CorruptEpochError,
    EngineError,
    FunctionsRefusedError,
    LostChannelError,
    NoSpaceError,
    PathRefusedError,
    SiteAgentError,
)
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.tasks.progress import Progress, Sample
from site_agent.tasks.runner import RETRY_DELAYS_S, TaskRunner
from site_agent.tasks.spec import TaskSpec
from site_agent.tasks.task import Task
from tests.unit.site_agent.fakes import VirtualClock

SPEC = TaskSpec("q.s1.us", "q", "s1", StageKind.SOURCE, "", timedelta(seconds=1))


class ScriptedTask(Task):
    """Does what the next step of its script says, each time it is run."""

    def __init__(self, step: Callable[[], None], progress: Progress) -> None:
        self._step = step
        self._progress = progress
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1

    async def run(self) -> None:
        self._step()
        self._progress.enter(TaskState.ENDED)


class EnduringTask(ScriptedTask):
    endures = True


@pytest.fixture
def log(tmp_path: Path) -> ChannelLog:
    return ChannelStore(tmp_path).open(SPEC.task_id)


def runner(log: ChannelLog, clock: VirtualClock, *steps: Exception | Callable[[], None]) -> TaskRunner:
    left = list(steps)

    def step() -> None:
        now = left.pop(0) if left else None
        if isinstance(now, Exception):
            raise now
        if now is not None:
            now()

    return TaskRunner(SPEC, lambda spec, progress: ScriptedTask(step, progress), site="us", log=log, clock=clock)


async def test_a_shadow_is_tried_again_however_often_and_however_it_fails(log: ChannelLog) -> None:
    left: list[Exception] = [LostChannelError("gone"), *(EngineError(str(n)) for n in range(8))]
    reasons: list[str] = []

    def step() -> None:
        if left:
            raise left.pop(0)

    def build(spec: TaskSpec, progress: Progress) -> Task:
        reasons.append(progress.reason)
        return EnduringTask(step, progress)

    made = TaskRunner(SPEC, build, site="us", log=log, clock=VirtualClock())
    assert (await finished(made), len(left)) == (TaskState.ENDED, 0)
    assert reasons[1:3] == ["gone", "0"]


async def finished(made: TaskRunner) -> TaskState:
    """Run a task until it has ended by itself, which it must tell once. Returns its state."""
    told: list[TaskState] = []
    made.ended = lambda: told.append(made.status().state)
    made.start()
    while not told:
        await asyncio.sleep(0)
    await made.stop()
    assert told == [made.status().state]
    return told[0]


async def test_a_failed_epoch_is_tried_again_after_a_while(log: ChannelLog) -> None:
    clock = VirtualClock()

    assert await finished(runner(log, clock, EngineError("a"), EngineError("b"))) is TaskState.ENDED
    assert clock.elapsed_s == sum(RETRY_DELAYS_S[:2])


async def test_it_fails_for_good_with_the_last_reason_and_its_hint(log: ChannelLog) -> None:
    errors = [ConnectorError("no such directory", hint="make it")] * (len(RETRY_DELAYS_S) + 1)
    made = runner(log, VirtualClock(), *errors)

    assert await finished(made) is TaskState.FAILED
    assert made.status().reason == "no such directory (make it)"


async def test_a_channel_that_does_not_come_is_not_waited_for_again(log: ChannelLog) -> None:
    made = runner(log, VirtualClock(), LostChannelError("ewr does not send channel c", hint="run the query again"))

    assert await finished(made) is TaskState.FAILED
    assert made.status().reason == "ewr does not send channel c (run the query again)"


@pytest.mark.parametrize("kind", [PathRefusedError, FunctionsRefusedError])
async def test_what_the_agent_was_told_to_refuse_is_not_tried_again(
    log: ChannelLog, kind: type[SiteAgentError]
) -> None:
    clock = VirtualClock()
    made = runner(log, clock, kind("path '/etc'", hint="start the agent with --allow-path /etc"))

    assert await finished(made) is TaskState.FAILED
    assert made.status().reason == "path '/etc' (start the agent with --allow-path /etc)"
    assert clock.elapsed_s == 0


async def test_a_full_disk_is_waited_for_as_long_as_it_takes(log: ChannelLog) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/data/state-4.arrow")
    java = EngineError("Job aborted: java.io.IOException: No space left on device")
    publishing = NoSpaceError("the disk is full: cannot write epoch 3 of channel q.s1.us")
    reasons: list[str] = []
    made: TaskRunner

    def note() -> None:
        reasons.append(made.status().reason)
        raise full

    made = runner(log, VirtualClock(), *[full, java, publishing] * 5, note)

    assert await finished(made) is TaskState.ENDED
    assert reasons == [publishing.message]


async def test_attempts_at_a_full_disk_do_not_count_as_failures(log: ChannelLog) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    bad = EngineError("bad")

    assert await finished(runner(log, VirtualClock(), *[full] * 9, *[bad] * 4)) is TaskState.ENDED
    assert await finished(runner(log, VirtualClock(), *[full] * 9, *[bad, full] * 5)) is TaskState.FAILED


async def test_another_fault_of_the_disk_is_told_without_the_words_internal_error(log: ChannelLog) -> None:
    made = runner(log, VirtualClock(), *[OSError(errno.EROFS, "Read-only file system", "/data/x")] * 5)

    assert await finished(made) is TaskState.FAILED
    assert made.status().reason == "[Errno 30] Read-only file system: '/data/x'"


async def test_progress_in_between_counts(log: ChannelLog) -> None:
    def progresses() -> None:
        log.publish(log.next_epoch, None, watermark_us=None)
        raise EngineError("after an epoch")

    steps = [EngineError("x")] * len(RETRY_DELAYS_S) + [progresses] + [EngineError("x")] * (len(RETRY_DELAYS_S) - 1)

    assert await finished(runner(log, VirtualClock(), *steps)) is TaskState.ENDED


async def test_commits_of_a_sink_count_as_progress(log: ChannelLog) -> None:
    """It publishes nothing: failures far apart must not add up over its life."""
    spec = replace(SPEC, kind=StageKind.SINK)
    attempts = iter(range(3 * len(RETRY_DELAYS_S)))

    def build(spec: TaskSpec, progress: Progress) -> ScriptedTask:
        def commits_and_fails() -> None:
            if next(attempts, None) is not None:
                progress.epoch_done(Sample(0.0, 0.0, 1, 1, 1))
                raise EngineError("after a commit")

        return ScriptedTask(commits_and_fails, progress)

    assert await finished(TaskRunner(spec, build, site="us", log=log, clock=VirtualClock())) is TaskState.ENDED


async def test_a_task_that_has_failed_before_is_not_run(log: ChannelLog) -> None:
    def build(spec: TaskSpec, progress: Progress) -> ScriptedTask:
        raise AssertionError("it is built")

    made = TaskRunner(SPEC, build, site="us", log=log, clock=VirtualClock())
    made.fail("it ended the agent")
    made.start()
    await made.stop()

    assert made.status().state is TaskState.FAILED
    assert made.status().reason == "it ended the agent"


async def test_a_surprise_does_not_escape(log: ChannelLog) -> None:
    made = runner(log, VirtualClock(), *[ZeroDivisionError("1/0")] * (len(RETRY_DELAYS_S) + 1))

    assert await finished(made) is TaskState.FAILED
    assert made.status().reason == "internal error: ZeroDivisionError: 1/0"


async def test_a_task_whose_output_is_damaged_has_failed_even_after_its_end(log: ChannelLog) -> None:
    log.publish(0, pa.table({"n": [1]}), watermark_us=None)
    made = runner(log, VirtualClock())
    assert await finished(made) is TaskState.ENDED

    path = log.directory / "000000000000.epoch"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptEpochError):
        log.epochs.read(0)

    assert made.status().state is TaskState.FAILED
    assert "epoch file 000000000000.epoch of channel q.s1.us is damaged" in made.status().reason


async def test_a_paused_task_stands_still_until_it_is_told_to_go_on(log: ChannelLog) -> None:
    runs = 0

    class Endless(ScriptedTask):
        async def run(self) -> None:
            nonlocal runs
            runs += 1
            await asyncio.Event().wait()

    tasks: list[Endless] = []

    def build(spec: TaskSpec, progress: Progress) -> Endless:
        tasks.append(Endless(lambda: None, progress))
        return tasks[-1]

    paused = replace(SPEC, paused=True)
    made = TaskRunner(paused, build, site="us", log=log, clock=VirtualClock())
    made.start()
    await asyncio.sleep(0)
    assert (made.status().state, tasks) == (TaskState.PAUSED, [])
    await made.update(SPEC)
    await asyncio.sleep(0)
    assert (made.status().state, runs) == (TaskState.STARTING, 1)
    await made.pause(paused)
    assert (made.status().state, tasks[0].closed) == (TaskState.PAUSED, 1)
    await made.update(replace(paused, consumers=("eu",)))
    assert (made.status().state, runs) == (TaskState.PAUSED, 1)
    await made.update(SPEC)
    await asyncio.sleep(0)
    assert runs == 2
    await made.stop()
