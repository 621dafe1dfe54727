"""Follows the channel of a shadow's predecessor: which windows are out, and where the channel ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from contract.tasks import TaskState
from site_agent.base.errors import CorruptEpochError, LostChannelError, UnknownChannelError
from site_agent.base.json import Json
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark
from site_agent.tasks.context import TaskContext
from site_agent.tasks.spec import InputSpec, TakeOver

T = TypeVar("T")

PATIENCE_S = 1.0
"""A channel that cannot be had is looked for again so often."""


class Control:
    """One reader of the channel, of whose epochs it takes watermarks and counts. Belongs to one event loop.

    `heard` is the next epoch that is not counted.
    """

    def __init__(self, context: TaskContext, log: ChannelLog, heard: int) -> None:
        self._context = context
        self._log = log
        self.heard = heard
        self.rows = 0
        """It counts the rows of the epochs that were heard."""
        self.size_bytes = 0
        self.commit: Mapping[str, Json] = {}
        """It holds what the last of them says beside its rows."""

    @property
    def watermark_us(self) -> int | None:
        """Windows that end by then are out."""
        standing = self._log.standing
        return standing.watermark_us if standing is not None else None

    @property
    def idle(self) -> bool:
        standing = self._log.standing
        return standing is not None and standing.idle

    @property
    def end(self) -> EndMark | None:
        """Return how the channel has ended; None when it has not, or when not everything before the end was heard."""
        return self._log.end if self.heard >= self._log.next_epoch else None

    async def hear(self) -> None:
        """Count the epochs that are here, and acknowledge nothing."""
        first = max(self.heard, self._log.first_epoch)
        for epoch in range(first, self._log.next_epoch):
            manifest = await undamaged(self._context, partial(self._log.epochs.manifest, epoch))
            self.rows += manifest.rows
            self.size_bytes += manifest.size_bytes
            self.commit = manifest.commit
            self.heard = epoch + 1
        self.heard = max(self.heard, first)

    async def news(self) -> None:
        """Return once there is an epoch that was not heard, or the end."""
        await patiently(self._context, self._log, self.heard)

    def acknowledge(self, heard: int) -> None:
        """Epochs before `heard` are not needed any more, even after a crash."""
        first = min(heard, self._log.next_epoch)
        if first > 0:
            self._context.router.acknowledge(self._log.id, self._context.spec.task_id, first - 1)


async def follow(context: TaskContext, take_over: TakeOver, heard: int) -> Control:
    """Subscribe the predecessor's channel."""
    spec = context.spec
    log = await context.router.subscribe(
        take_over.predecessor_channel, take_over.predecessor_site, spec.task_id, query_id=spec.query_id
    )
    return Control(context, log, heard)


async def release(context: TaskContext, take_over: TakeOver) -> None:
    """Tell the predecessor's site that nothing of its channel, which has ended, is needed here; then unsubscribe."""
    router, reader, channel = context.router, context.spec.task_id, take_over.predecessor_channel
    if channel not in router.subscriptions(reader):
        return
    control = await follow(context, take_over, 0)
    log = router.store.open(channel)
    while log.end is None:
        await patiently(context, log, log.next_epoch)
    await context.in_thread(lambda: control.acknowledge(log.next_epoch))
    await router.finished(channel)
    await router.unsubscribe(channel, reader)


async def until_ended(context: TaskContext, log: ChannelLog) -> None:
    """Return once all of the channel is here, however long its site does not send it."""
    while log.end is None:
        await patiently(context, log, log.next_epoch)


async def patiently(context: TaskContext, log: ChannelLog, epoch: int) -> None:
    """Return once the epoch is here, or the channel has ended; or after a while in which it could not be had."""
    with suppress(LostChannelError, UnknownChannelError):
        await log.state.wait(epoch)
        return
    await context.clock.sleep(PATIENCE_S)


async def undamaged(context: TaskContext, read: Callable[[], T]) -> T:
    """Return what `read` returns, in a thread; a damaged epoch of a copy is fetched again first."""
    while True:
        try:
            return await context.in_thread(read)
        except CorruptEpochError as damage:
            await context.router.put_right(damage)


class HeldInputs:
    """Keeps the inputs of a shadow at its site: its predecessor has not read all of them yet."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._items: Mapping[str, InputSpec] = {}
        self.logs: dict[str, ChannelLog] = {}

    async def hold(self, inputs: Iterable[InputSpec]) -> None:
        """Subscribe these, and keep no others."""
        self._items = {item.channel: item for item in inputs}
        spec, router = self._context.spec, self._context.router
        for item in self._items.values():
            if item.channel not in self.logs:
                log = await router.subscribe(item.channel, item.site, spec.task_id, query_id=spec.query_id)
                self.logs[item.channel] = log
        self.logs = {channel: log for channel, log in self.logs.items() if channel in self._items}

    @property
    def first_epochs(self) -> dict[str, int]:
        """Return the oldest epoch of each input that is held here, or will come; nothing until all are known."""
        found = {channel: self.first_epoch(channel) for channel in self._items}
        known = {channel: first for channel, first in found.items() if first is not None}
        return known if len(known) == len(found) else {}

    def first_epoch(self, channel: str) -> int | None:
        """Return the oldest epoch of an input that is held here, or will come, with all the bins that are read.

        None: that is not known yet of a copy.
        """
        log, item = self.logs.get(channel), self._items[channel]
        if log is None:
            return None
        held_from = self._context.router.held_from(channel, item.bins)
        known = item.site == self._context.site or log.next_epoch > 0 or log.end is not None or log.standing is not None
        return max(log.first_epoch, held_from) if known and held_from is not None else None


async def stay_behind(context: TaskContext, predecessor: str, end: EndMark) -> None:
    """Wait for the master to end the task: its predecessor went to its end by itself, or another task continues it."""
    why = f"goes on as {end.successor_channel}" if end.successor_channel else "ended"
    context.progress.enter(TaskState.RUNNING, f"is not needed: {predecessor} {why}")
    await asyncio.Event().wait()
