"""The site's one receiver: pulls each remote channel once, however many read it here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from machine.faults import reached
from site_agent.base.errors import ChannelError, CorruptEpochError, UnknownChannelError
from site_agent.base.faults import FaultPoint
from site_agent.base.offload import Offload
from site_agent.channels.log import ChannelLog
from site_agent.channels.reuse import ReusableRows
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import Connect
from site_agent.router.backlog import Backlog
from site_agent.router.links import Links, LinkUsage
from site_agent.router.meter import LinkTransfer, TransferMeter
from site_agent.router.pacing import LinkPace
from site_agent.router.pull import Needs, Pull, PullEnvironment, PullSettings
from site_agent.router.readers import READERS_FILE, Readers, load_readers, save_readers
from site_agent.router.refetch import refetch

SYNCING_THREADS = 8
"""Syncs of several channels at a time share a commit of the file system's journal: eight do, for the price of two."""
BACKLOG_BYTES = 64 * 1024 * 1024
"""The limit on whole epochs of all channels that are not stored yet."""


@dataclass(frozen=True, slots=True)
class ChannelUsage:
    """The traffic of one remote channel since the agent started."""

    channel: str
    query_id: str
    from_site: str
    bytes: int
    epochs: int
    readers: int


class Router:
    """Subscriptions of local readers to channels of any site. Belongs to one event loop; any thread may acknowledge."""

    def __init__(
        self,
        site: str,
        store: ChannelStore,
        connect: Connect,
        settings: PullSettings | None = None,
        *,
        reusable: ReusableRows | None = None,
    ) -> None:
        settings = settings or PullSettings()
        self.site = site
        self.store = store
        self._links = Links(connect)
        self.offload = Offload("selat-router", threads=SYNCING_THREADS)
        backlog = Backlog(max(BACKLOG_BYTES, settings.window_bytes), writers=SYNCING_THREADS)
        self._meter = TransferMeter(settings.now_s)
        self._env = PullEnvironment(site, self._links, self.offload, settings, backlog, self._meter, reusable)
        self._usage: dict[str, LinkUsage] = {}
        self._pulls: dict[str, Pull] = {}
        self._readers: dict[str, Readers] = {}
        self._bins: Mapping[str, tuple[int, ...]] = {}
        self._reused: frozenset[str] = frozenset()
        self._subscribing = asyncio.Lock()
        self._joining: str | None = None
        """The channel whose reader is being stored: it must not be taken for one without readers."""
        self._changing = threading.Lock()
        self._not_passed_on: set[str] = set()
        """Channels of which an acknowledgement could not be stored: whoever acknowledges again passes it on."""
        for channel in store.ids():
            readers = load_readers(store.root / channel)
            if readers is not None:
                self._readers[channel] = readers

    def slow_down(self, paces: Mapping[str, LinkPace]) -> None:
        """Emulate links, given by the site where they begin; called before the first subscription."""
        self._env.paces.update(paces)
        self._meter.set_clocks({site: pace.now_s for site, pace in paces.items()})

    def set_addresses(self, addresses: Mapping[str, str]) -> None:
        """Set the addresses of the sites' exchanges; transfers from a site that moved continue at its new address."""
        stale = self._links.set_addresses(addresses)
        for pull in self._pulls.values():
            if pull.from_site in stale:
                pull.reconnect()

    def set_bins(self, bins: Mapping[str, tuple[int, ...]]) -> None:
        """Set, by channel, the bins that are read here; other channels are read whole. It counts for new copies."""
        self._bins = dict(bins)

    def set_reused(self, channels: Collection[str]) -> None:
        """Set the channels whose rows are not sent again that came here for other queries. It counts for new copies."""
        self._reused = frozenset(channels)

    def set_onward(self, channel: str, onward_us: int) -> None:
        """Set how long what comes from a remote channel takes to go on from here.

        Its producer hears of it with the next credit.
        """
        if channel in self._pulls:
            self._pulls[channel].onward_us = onward_us

    def held_from(self, channel: str, bins: Collection[int]) -> int | None:
        """The first epoch from which on the channel's rows of these bins are here, or will come; None: they are not.

        A copy has the bins that are read here, each from the epoch on at which its first reader joined. No bins: all
        rows.
        """
        readers = self._readers.get(channel)
        return 0 if readers is None else readers.held_from(bins)

    async def subscribe(
        self, channel: str, from_site: str, reader: str, *, query_id: str = "", keeps: bool = False
    ) -> ChannelLog:
        """The channel's log at this site; every epoch from its `first_epoch` on is kept until the reader acknowledges
        it.

        A local channel is the producer's own log. A remote one is a copy that fills while the subscription lasts, with
        the same epoch numbers, but without the producer's commits and without epochs it no longer kept. A reader that
        `keeps` lets the producer trim what is stored here, and keeps the copy until it acknowledges. Idempotent.

        Raises:
            ChannelError: the channel is subscribed from another site, or the disk refused.
        """
        async with self._subscribing:
            bins = self._bins.get(channel, ()) if from_site != self.site else ()
            known = self._readers.get(channel) or Readers(from_site, query_id, bins=bins)
            if known.from_site != from_site:
                message = f"channel {channel} comes from {known.from_site}, not from {from_site}"
                raise ChannelError(message, ids={"channel": channel})
            self._joining = channel
            try:
                log = await self.offload.run(self.store.open, channel)
                if reader not in known.by_name:
                    known = await self._widened(log, known, bins)
                joined = known.joined(reader, keeps=keeps)
                if joined is not known:
                    await self.offload.run(save_readers, self.store.files, log.directory, joined)
                    reached(FaultPoint.READERS_STORED)
                with self._changing:
                    # Another reader may have acknowledged in the meantime.
                    now = self._readers.get(channel, known)
                    joined = replace(now, bins=known.bins, narrower=known.narrower).joined(reader, keeps=keeps)
                    self._readers[channel] = joined
            except BaseException:
                await self._go_on(channel)
                raise
            finally:
                self._joining = None
            if from_site == self.site:
                if not joined.by_name[reader].cursor:
                    # Other readers here may have acknowledged epochs that another site still has the log keep.
                    await self.offload.run(log.retain_again, self.site)
                self._say_awaited(log)
            elif channel not in self._pulls:
                await self._start_pull(log, joined)
            return log

    async def _widened(self, log: ChannelLog, known: Readers, bins: Collection[int]) -> Readers:
        """Have a copy get more bins from its next epoch on; nothing is under way meanwhile."""
        if not known.by_name or known.from_site == self.site or known.held_from(bins) is not None:
            return known
        pull = self._pulls.pop(log.id, None)
        if pull is not None:
            await pull.close()
        return known.widened(bins, log.next_epoch)

    async def _go_on(self, channel: str) -> None:
        """Have a copy filled as before, where that was stopped to get more bins."""
        readers = self._readers.get(channel)
        if readers is not None and readers.from_site != self.site and channel not in self._pulls:
            await self._start_pull(self.store.open(channel), readers)

    def may_join(self, channel: str, from_site: str, reader: str) -> bool:
        """Return True when the reader does not read the channel yet, and nobody here has it from another site."""
        readers = self._readers.get(channel)
        return readers is None or (readers.from_site == from_site and reader not in readers.by_name)

    async def put_right(self, damage: CorruptEpochError) -> None:
        """Fetch the damaged epoch of a copy again; waits as long as its producer is unreachable.

        Raises:
            CorruptEpochError: the channel is this site's own, or its producer does not have the epoch any more.
        """
        channel, epoch = damage.ids.get("channel", ""), damage.ids.get("epoch", "")
        readers = self._readers.get(channel)
        log = self._existing(channel) if readers is not None and readers.from_site != self.site else None
        if readers is None or log is None or not epoch.isdigit():
            raise damage
        await refetch(log, int(epoch), from_site=readers.from_site, bins=readers.bins, environment=self._env)

    def acknowledge(self, channel: str, reader: str, epoch: int) -> None:
        """This reader does not need the epochs up to and including `epoch`. Unknown readers and older epochs change
        nothing.

        Raises:
            ChannelError: the epoch is not published yet, or the disk refused.
        """
        log = self._existing(channel) if channel in self._readers else None
        if log is None:
            return
        if epoch >= log.next_epoch:
            raise ChannelError(f"epoch {epoch} of channel {channel} is not published yet", ids={"channel": channel})
        with self._changing:
            before = self._readers.get(channel)
            if before is None:
                return
            after = self._readers[channel] = before.acknowledged(reader, epoch)
            if after is before and channel not in self._not_passed_on:
                return
            self._not_passed_on.add(channel)
        self._pass_on(log, after)
        with self._changing:
            if self._readers.get(channel) is after:
                self._not_passed_on.discard(channel)

    async def unsubscribe(self, channel: str, reader: str) -> None:
        """Remove the reader. The last one ends the transfer and removes the copy. Idempotent."""
        async with self._subscribing:
            readers = self._readers.get(channel)
            if readers is None or reader not in readers.by_name:
                return
            with self._changing:
                left = self._readers[channel] = self._readers[channel].left(reader)
            if left.by_name:
                log = self._existing(channel)
                if log is not None:
                    await self.offload.run(save_readers, self.store.files, log.directory, left)
                    self._pass_on(log, left)
            else:
                del self._readers[channel]
                await self._forget(channel, readers)

    async def keep_only(self, readers: Collection[str]) -> None:
        """Unsubscribe all readers but these: called by a restarted agent once it knows what it has to run."""
        for channel, known in list(self._readers.items()):
            for reader in known.by_name:
                if reader not in readers:
                    await self.unsubscribe(channel, reader)

    def subscriptions(self, reader: str) -> Mapping[str, str]:
        """Channels that the reader is subscribed to, with the sites they come from; also from before a restart."""
        return {channel: r.from_site for channel, r in sorted(self._readers.items()) if reader in r.by_name}

    @property
    def subscribed(self) -> frozenset[str]:
        """All channels that somebody here reads or is about to read, including successors that ports found."""
        return frozenset(self._readers) | ({self._joining} if self._joining is not None else frozenset())

    def usage(self) -> tuple[ChannelUsage, ...]:
        """The traffic of each remote channel that is subscribed and was used since the agent started."""
        return tuple(self._usage_of(channel, pull) for channel, pull in sorted(self._pulls.items()))

    def link_bytes(self) -> Mapping[str, LinkUsage]:
        """The traffic from each site since the agent started, over all channels."""
        return {site: replace(usage) for site, usage in sorted(self._usage.items())}

    def take_transfers(self) -> tuple[LinkTransfer, ...]:
        """Stretches of steady transfer that were measured since the last call."""
        return self._meter.take()

    async def close(self) -> None:
        """End all transfers; subscriptions and copies stay on disk."""
        await asyncio.gather(*(pull.close() for pull in self._pulls.values()))
        self._pulls.clear()
        await self._links.close()
        self.offload.close()

    async def _start_pull(self, log: ChannelLog, readers: Readers) -> None:
        await self.offload.run(log.set_consumers, [self.site])
        usage = self._usage.setdefault(readers.from_site, LinkUsage())
        self._pulls[log.id] = Pull(
            log,
            readers.from_site,
            self._env,
            link=usage,
            needs=lambda stored: self._needs(log.id, stored),
            told_end=readers.told_end,
            tell=partial(self._note_told_end, log),
            reuses=log.id in self._reused,
        )
        self._pass_on(log, readers)

    async def _note_told_end(self, log: ChannelLog) -> None:
        async with self._subscribing:
            with self._changing:
                readers = self._readers.get(log.id)
                if readers is None:
                    return
                told = self._readers[log.id] = replace(readers, told_end=True)
            await self.offload.run(save_readers, self.store.files, log.directory, told)

    async def finished(self, channel: str) -> None:
        """Return when a channel that has ended is here whole, and its producer knows that nobody here needs more."""
        pull = self._pulls.get(channel)
        if pull is not None:
            await pull.finished()

    def _needs(self, channel: str, stored: int) -> Needs:
        readers = self._readers.get(channel)
        if readers is None:
            return Needs()
        return Needs(readers.needed_there(stored), readers.ahead_there(stored), readers.bins)

    def _pass_on(self, log: ChannelLog, readers: Readers) -> None:
        """Tell the log, and the producer of a copy, which epochs no reader here needs."""
        with self._changing:
            # A reader may have joined since.
            needed = self._readers.get(log.id, readers).needed_here()
            if needed:
                log.acknowledge(self.site, needed - 1)
        if log.id in self._pulls:
            self._pulls[log.id].acknowledge()
        elif readers.from_site == self.site:
            for name, cursor in readers.ahead_there(log.next_epoch).items():
                log.readers.passed(self.site, name, cursor)
            self._say_awaited(log)

    def _say_awaited(self, log: ChannelLog) -> None:
        """Tell a producer at this site what its readers here have not taken yet; the latest call counts."""
        with self._changing:
            readers = self._readers.get(log.id)
            log.readers.set_awaited(self.site, readers.awaited if readers is not None else 0)

    def _existing(self, channel: str) -> ChannelLog | None:
        """The channel's log; None: its producer has removed it from the store."""
        try:
            return self.store.get(channel)
        except UnknownChannelError:
            return None

    async def _forget(self, channel: str, readers: Readers) -> None:
        pull = self._pulls.pop(channel, None)
        if pull is not None:
            await pull.close()
        if readers.from_site != self.site:
            await self.offload.run(self.store.remove, channel)
        else:
            log = self._existing(channel)
            if log is not None:
                self._say_awaited(log)
            await self.offload.run(self.store.files.remove, self.store.root / channel / READERS_FILE)

    def _usage_of(self, channel: str, pull: Pull) -> ChannelUsage:
        readers = self._readers[channel]
        return ChannelUsage(
            channel=channel,
            query_id=readers.query_id,
            from_site=pull.from_site,
            bytes=pull.usage.bytes,
            epochs=pull.usage.epochs,
            readers=len(readers.by_name),
        )
