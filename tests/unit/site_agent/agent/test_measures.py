"""A report waits for its figures only for a while."""

from __future__ import annotations

from threading import Event

import pytest

from site_agent.agent.measures import Measured, Measures
from site_agent.agent.memory import MemoryUse


async def test_a_measurement_that_takes_long_is_not_waited_for_and_counts_when_it_is_there() -> None:
    enough, begun = Event(), 0

    def memory() -> MemoryUse:
        nonlocal begun
        begun += 1
        enough.wait()
        return MemoryUse(agent_bytes=begun)

    measures = Measures(memory)
    assert await measures.newest(patience_s=0) == Measured()
    assert await measures.newest(patience_s=0) == Measured()
    enough.set()
    assert await measures.newest(patience_s=60) == Measured(MemoryUse(agent_bytes=1))
    assert await measures.newest(patience_s=60) == Measured(MemoryUse(agent_bytes=2))
    measures.close()


async def test_a_measurement_that_fails_is_told_and_the_next_one_is_new() -> None:
    answers = [MemoryUse(agent_bytes=7)]

    def memory() -> MemoryUse:
        if len(answers) == 1:
            answers.append(answers[0])
            raise OSError("no more files")
        return answers[0]

    measures = Measures(memory)
    with pytest.raises(OSError, match="no more files"):
        await measures.newest(patience_s=60)
    assert (await measures.newest(patience_s=60)).memory.agent_bytes == 7
    measures.close()
