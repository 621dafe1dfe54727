"""Stores received epochs: a thread verifies and stores them while the call receives the next ones."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from machine.faults import reached
from machine.tracing import sampled_span
from site_agent.base.faults import FaultPoint
from site_agent.base.offload import Offload
from site_agent.channels.codec import verify
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark
from site_agent.channels.reuse import LEAST_BYTES, ReusableRows, digest_of
from site_agent.exchange.assembler import ReceivedEpoch
from site_agent.exchange.turns import EPOCH_COST_BYTES, Flow
from site_agent.router.backlog import Backlog

GROUP_EPOCHS = 64
GROUP_BYTES = 384 * 1024
"""No more is stored at once, but for one epoch at least: then it is another channel's turn. More makes it wait longer,
and saves little: of seven syncs for six epochs in a directory one is the directory's."""


class Storing:
    """Takes what one call received, in order. `run` stores it; `put` waits while the site's backlog is full."""

    def __init__(
        self,
        log: ChannelLog,
        offload: Offload,
        backlog: Backlog,
        *,
        stored: Callable[[int], None],
        reusable: ReusableRows | None = None,
    ) -> None:
        """`stored` is told the payload bytes of what has become durable; large epochs are kept for other queries."""
        self._log = log
        self._offload = offload
        self._backlog = backlog
        self._held, self._written = Flow(), Flow()
        self._stored = stored
        self._reusable = reusable
        self._waiting: deque[ReceivedEpoch] = deque()
        self._end: EndMark | None = None
        self._changed = asyncio.Event()
        self._closed = False

    async def put(self, received: ReceivedEpoch | EndMark) -> None:
        if isinstance(received, EndMark):
            self._end = received
        else:
            size_bytes = received.manifest.size_bytes
            await self._backlog.bytes.take(self._held, size_bytes, cost_bytes=size_bytes)
            self._waiting.append(received)
        self._changed.set()

    def close(self) -> None:
        """No more epochs come: `run` ends when all are stored."""
        self._closed = True
        self._changed.set()

    async def run(self) -> None:
        """Store epochs until closed.

        Raises:
            CorruptEpochError: an epoch does not match its checksum; those before it are stored.
            ChannelError: the disk refused.
        """
        try:
            while self._waiting or self._end is not None or not self._closed:
                self._changed.clear()
                if self._waiting:
                    await self._store()
                elif self._end is not None:
                    await self._finish(self._end)
                    self._end = None
                else:
                    await self._changed.wait()
        finally:
            self._backlog.bytes.give_back(_size_bytes(self._waiting))
            self._waiting.clear()

    async def _store(self) -> None:
        await self._backlog.writers.take(self._written, 1, cost_bytes=EPOCH_COST_BYTES)
        try:
            await self._store_group(self._group())
        finally:
            self._backlog.writers.give_back(1)

    async def _store_group(self, group: Sequence[ReceivedEpoch]) -> None:
        size_bytes = _size_bytes(group)
        self._written.charge(size_bytes)
        reached(FaultPoint.COPY_RECEIVED)
        try:
            with sampled_span("pull", channel=self._log.id):
                await self._offload.run(store_checked, self._log, group)
                if self._reusable is not None:
                    await self._offload.run(keep, self._reusable, self._log, group)
            reached(FaultPoint.COPY_STORED)
        finally:
            self._backlog.bytes.give_back(size_bytes)
        self._stored(sum(epoch.sent_bytes for epoch in group))

    def _group(self) -> Sequence[ReceivedEpoch]:
        group = [self._waiting.popleft()]
        while self._waiting and len(group) < GROUP_EPOCHS:
            if _size_bytes([*group, self._waiting[0]]) > GROUP_BYTES:
                break
            group.append(self._waiting.popleft())
        return group

    async def _finish(self, end: EndMark) -> None:
        await self._offload.run(self._log.finish_as, end)
        self._stored(0)


def store_checked(log: ChannelLog, epochs: Sequence[ReceivedEpoch]) -> None:
    """Append epochs whose checksums match.

    Raises:
        CorruptEpochError: one does not; those before it are stored.
        ChannelError: the disk refused.
    """
    good: list[ReceivedEpoch] = []
    try:
        for epoch in epochs:
            if epoch.encoded is not None:
                verify(epoch.encoded)
            good.append(epoch)
    finally:
        log.append_all([(epoch.manifest, epoch.encoded) for epoch in good])


def keep(reusable: ReusableRows, log: ChannelLog, epochs: Iterable[ReceivedEpoch]) -> None:
    """Keep the large ones of these epochs, which are stored, for other queries."""
    for epoch in epochs:
        if epoch.encoded is not None and len(epoch.encoded.payload) >= LEAST_BYTES:
            reusable.put(log, epoch.manifest.epoch, digest_of(epoch.encoded))


def _size_bytes(epochs: Iterable[ReceivedEpoch]) -> int:
    return sum(epoch.manifest.size_bytes for epoch in epochs)
