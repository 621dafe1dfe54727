"""What all tasks have in common, for whoever runs them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress

from contract.handover import HandoverReport
from site_agent.port import InputRead, Port
from site_agent.tasks.spec import HandOver, InputSpec, TakeOver


class Task(ABC):
    """One run of a task. Of what can change while it runs, a kind of task takes over what concerns it."""

    @abstractmethod
    async def run(self) -> None:
        """Return when the task has ended."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of what the task holds open; it is not run again."""

    async def set_inputs(self, inputs: Sequence[InputSpec]) -> None:
        """Read exactly these channels from now on. Tasks whose inputs cannot change ignore it."""
        return

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Take over the changed options of the task's relation. Tasks that cannot do so ignore it."""
        return

    async def set_handover(self, hand_over: HandOver | None, take_over: TakeOver | None) -> None:
        """Take over what the task has to do for a successor or instead of a predecessor. Others have neither."""
        return

    def count_late(self) -> None:
        """Count rows that are late from now on: the tasks beside it that did are gone. Others have always done so."""
        return

    @property
    def handover(self) -> HandoverReport | None:
        """Return how far the task's handover has come; None when it has no part in one."""
        return None

    @property
    def endures(self) -> bool:
        """Return whether the task is run again for as long as it is assigned, however often it fails."""
        return False

    @property
    def missed_inputs(self) -> tuple[str, ...]:
        """Channels that it does not read, because their first epochs are gone."""
        return ()

    @property
    def reads(self) -> tuple[InputRead, ...]:
        """How far it has come in each of its inputs; empty for tasks whose inputs are not read bit by bit."""
        return ()


class PortTask(Task):
    """A task that reads its inputs through a port, and may be told of other work while it waits for them."""

    _port: Port
    _news: bool = False
    """It is set by `_interrupt`, and cleared by the task before it looks for what there is to do."""
    _waiting: asyncio.Timeout | None = None
    """The wait that an interruption ends."""

    def _interrupt(self) -> None:
        """Have the task's wait for its inputs end, now or when it begins: there is something else to do."""
        self._news = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(0.0)

    async def _stand_still(self, most_s: float) -> None:
        """Wait so long, or until there is something else to do."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s) as self._waiting:
                await asyncio.Event().wait()
        self._waiting = None

    @property
    def missed_inputs(self) -> tuple[str, ...]:
        return self._port.missed_inputs

    @property
    def reads(self) -> tuple[InputRead, ...]:
        return self._port.reads
