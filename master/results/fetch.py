"""Fetches all result channels of a query across failures of the connection to the gateway, until all is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial

from machine.backoff import delay_after
from machine.clock import Clock
from master.base.errors import (
    InvalidRequestError,
    NoResultsError,
    ResultsExpiredError,
    ResultsGoneError,
    ResultsUnavailableError,
)
from master.config.values import MasterConfig
from master.queries.lineages import Lineages
from master.queries.registry import QueryRegistry
from master.reconcile.assignments import keeps_results, result_channels
from master.reconcile.inputs import begins_at_zero
from master.records.model import QueryRecord, QueryState
from master.results.decode import EndOfChannel, SentEpoch, arrow_stream
from master.results.pull import (
    ChannelAbsentError,
    EpochGoneError,
    GatewayAbsentError,
    GatewayRefusedError,
    PullTarget,
    pull,
)
from master.sites.peers import Peers
from master.sites.status import Sites
from planner.graph.ids import TaskId

RETRIES_S = (0.05, 0.1, 0.2, 0.5)
"""Delays between attempts; the last one repeats. A new query's channels exist at its gateway after a moment."""
QUEUED_EPOCHS = 4
"""The most epochs of all channels together that wait for the client."""

SMALL_BYTES = 256 * 1024
"""Up to this size, decoding is faster than starting it in a thread."""


@dataclass(frozen=True, slots=True)
class FetchedEpoch:
    channel: str
    epoch: int
    rows: int
    watermark_us: int | None
    arrow_stream: bytes
    """Empty when the client takes the compressed epoch in `sent` instead."""
    sent: SentEpoch


@dataclass(frozen=True, slots=True)
class FetchStart:
    """The next epoch that the client wants of each channel."""

    cursor: Mapping[str, int] = field(default_factory=dict)
    from_epoch: int = 0
    """The first epoch of channels that the cursor does not name."""
    from_first: bool = False
    """Such channels begin at the first epoch that is kept, instead."""
    compressed: bool = False
    """The client decompresses epochs itself."""

    def target(self, channel: str, *, follow: bool, own: bool) -> PullTarget:
        """What to pull of one channel. The first epochs of one that began before the query may have been removed."""
        first = channel not in self.cursor and (self.from_first or (not own and not self.from_epoch))
        return PullTarget(channel, 0 if first else self.cursor.get(channel, self.from_epoch), follow, first)


@dataclass(frozen=True, slots=True)
class FetchParts:
    """The parts of the master that fetching uses."""

    queries: QueryRegistry
    sites: Sites
    peers: Peers
    clock: Clock
    config: MasterConfig
    lineages: Lineages


_Queue = asyncio.Queue[FetchedEpoch | Exception | None]


class ResultFetcher:
    """Relays results to clients; keeps none."""

    def __init__(self, parts: FetchParts) -> None:
        self._parts = parts

    async def fetch(self, query: str, start: FetchStart, *, follow: bool) -> AsyncGenerator[FetchedEpoch, None]:
        """Epochs from the start on, in order within each channel, each once.

        With `follow`, until the query is over and all is sent.

        Raises:
            ResultsExpiredError, ResultsGoneError, ResultsUnavailableError, CorruptResultsError
            NoResultsError: the query writes into a sink.
            InvalidRequestError: the cursor names a channel that is none of the query's.
        """
        channels = self._channels(query)
        if follow and not channels:
            await self._placed(query)
            channels = self._channels(query)
        start = replace(start, cursor=self._cursor(query, channels, start.cursor))
        queue: _Queue = asyncio.Queue(QUEUED_EPOCHS)
        targets = self._targets(query, channels, start, follow=follow)
        readers = [
            asyncio.create_task(self._read(query, target, queue, compressed=start.compressed)) for target in targets
        ]
        try:
            running = len(readers)
            while running:
                item = await queue.get()
                if item is None:
                    running -= 1
                elif isinstance(item, Exception):
                    raise item
                else:
                    yield item
            if follow:
                # The gateway holds everything before its next report makes the query FINISHED.
                await self._over(query)
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)

    def _targets(
        self, query: str, channels: Sequence[TaskId], start: FetchStart, *, follow: bool
    ) -> Sequence[PullTarget]:
        record = self._parts.queries.get(query)
        own = {name: begins_at_zero(record, self._parts.lineages.get(name).origin) for name in channels}
        return [start.target(str(name), follow=follow, own=own[name]) for name in channels]

    def _channels(self, query: str) -> tuple[TaskId, ...]:
        record = self._parts.queries.get(query)
        if record.plan.sink is not None:
            raise NoResultsError(
                f"query {query} writes into sink {record.plan.sink.relation}, and has no results to fetch",
                hint=f"look at its progress: selat query show {query}",
                ids={"query": query, "relation": record.plan.sink.relation or ""},
            )
        if not keeps_results(record, now=self._parts.clock.now(), retention=self._parts.config.results_retention):
            raise ResultsExpiredError(
                f"the results of query {query} are no longer kept",
                hint=f"they are kept for {self._parts.config.results_retention} after a query's end",
                ids={"query": query},
            )
        return result_channels(record)

    def _cursor(self, query: str, channels: Collection[TaskId], cursor: Mapping[str, int]) -> Mapping[str, int]:
        """Return the cursor by the names that channels have now: one may have been another query's before.

        Raises:
            InvalidRequestError: it names a channel that is none of the query's.
        """
        names = {str(name): str(name) for name in channels}
        names |= {str(self._parts.lineages.get(name).origin): str(name) for name in channels}
        foreign = sorted(cursor.keys() - names.keys())
        if foreign:
            raise InvalidRequestError(
                f"{foreign[0]} is no result channel of query {query}",
                hint="its result channels: " + ", ".join(map(str, channels)),
                ids={"query": query, "channel": foreign[0]},
            )
        now: dict[str, int] = {}
        for name, epoch in cursor.items():
            now[names[name]] = max(epoch, now.get(names[name], 0))
        return now

    async def _read(self, query: str, target: PullTarget, queue: _Queue, *, compressed: bool) -> None:
        """Put the channel's epochs, and at the end None or the error that ended it."""
        try:
            async with aclosing(self._epochs(query, target)) as epochs:
                async for epoch in epochs:
                    if epoch.schema:
                        await queue.put(_fetched(epoch) if compressed else await _decoded(epoch))
        except Exception as error:  # noqa: BLE001 - not swallowed: whoever fetches raises it
            await queue.put(error)
        else:
            await queue.put(None)

    async def _epochs(self, query: str, target: PullTarget) -> AsyncGenerator[SentEpoch, None]:
        """The epochs of one channel, resumed after every failure."""
        wanted, from_first, failing_since_s, failures = target.from_epoch, target.from_first, None, 0
        # A client knows one channel, whichever tasks have written it one after the other.
        channel, continued = self._written_in(target), False
        while True:
            record = self._parts.queries.get(query)
            live = target.follow and not record.state.over
            try:
                async with aclosing(self._pull(record, PullTarget(channel, wanted, live, from_first))) as items:
                    async for item in items:
                        if isinstance(item, EndOfChannel):
                            successor = item.successor_for(query)
                            if not successor:
                                return
                            # It may not have begun yet, and then has no epoch that could be asked for.
                            channel, wanted, from_first, live = successor, max(wanted, item.next_epoch), True, True
                            continued = True
                            break
                        failing_since_s, failures = None, 0
                        if continued and item.epoch > wanted:
                            raise EpochGoneError(item.epoch)
                        if item.epoch >= wanted:
                            wanted, from_first, continued = item.epoch + 1, False, False
                            yield replace(item, channel=target.channel)
                if not live:
                    return
            except EpochGoneError as error:
                if continued and error.first_epoch <= wanted:
                    # It has begun meanwhile.
                    continue
                raise _gone(record.id, target.channel, wanted, error.first_epoch) from error
            except (GatewayAbsentError, ChannelAbsentError) as error:
                if _nothing_there(error, record, follow=target.follow):
                    return
                failing_since_s = self._parts.clock.monotonic() if failing_since_s is None else failing_since_s
                self._check_patience(record, error, follow=target.follow, since_s=failing_since_s)
                await asyncio.sleep(delay_after(failures, RETRIES_S))
                failures += 1

    def _written_in(self, target: PullTarget) -> str:
        """The channel that leads to the first epoch wanted: that of the task which was in the place before it.

        The channel that begins with this epoch may not have begun yet at the gateway.
        """
        place = TaskId.parse(target.channel)
        lineage = self._parts.lineages.get(place)
        wanted = 0 if target.from_first else target.from_epoch
        tasks = [(one.from_epoch, (one.of or place)._replace(generation=one.generation)) for one in lineage.earlier]
        tasks.append((lineage.from_epoch, lineage.task))
        # Oldest first: the last one that has begun by then, or else the first one of all.
        return str([tasks[0][1], *(task for first, task in tasks if first < wanted)][-1])

    async def _pull(self, record: QueryRecord, target: PullTarget) -> AsyncGenerator[SentEpoch | EndOfChannel, None]:
        gateway = record.plan.destination.site
        address = self._parts.sites.get(gateway).address
        if not address:
            raise GatewayAbsentError(f"site {gateway} has not connected yet")
        until = partial(self._over, record.id) if target.follow else _never
        connection = self._parts.peers.channel(gateway, address)
        async with aclosing(pull(connection, target, until=until)) as items:
            async for item in items:
                yield item

    async def _placed(self, query: str) -> None:
        """Wait until a batch query's last task has a site, or the query is over."""
        changes = self._parts.queries.changes(query)
        while True:
            version = changes.version
            record = self._parts.queries.get(query)
            if record.state.over or result_channels(record):
                return
            await changes.wait_beyond(version)

    async def _over(self, query: str) -> None:
        """Wait until the query is over. The channels of a cancelled or failed query have no end."""
        changes = self._parts.queries.changes(query)
        while True:
            version = changes.version
            if self._parts.queries.get(query).state.over:
                return
            await changes.wait_beyond(version)

    def _check_patience(self, record: QueryRecord, error: Exception, *, follow: bool, since_s: float) -> None:
        """Return if the gateway may still be waited for: without limit while a followed query is live, else for a
        limited time. Raises ResultsUnavailableError otherwise."""
        unlimited = not record.state.over and not isinstance(error, GatewayRefusedError)
        patient = (
            unlimited or self._parts.clock.monotonic() < since_s + self._parts.config.results_retry.total_seconds()
        )
        if follow and patient:
            return
        gateway = record.plan.destination.site
        raise ResultsUnavailableError(
            f"site {gateway}, which keeps the results of query {record.id}, does not answer: {error}",
            hint=f"look at SHOW SITES; fetch again when {gateway} is back",
            ids={"query": record.id, "site": gateway},
        ) from error


def _gone(query: str, channel: str, epoch: int, first_epoch: int) -> ResultsGoneError:
    return ResultsGoneError(
        f"epoch {epoch} of the results of query {query} is no longer kept; the first kept epoch is {first_epoch}",
        hint=f"read on from there: selat query results {query} --from-epoch first",
        ids={"query": query, "channel": channel, "epoch": str(epoch), "first_epoch": str(first_epoch)},
    )


def _nothing_there(error: Exception, record: QueryRecord, *, follow: bool) -> bool:
    """Whether the error only says that a channel is missing, and a missing channel counts as empty: always, except for
    a finished query, which has all its channels, and a live one that is followed."""
    if not isinstance(error, ChannelAbsentError) or record.state is QueryState.FINISHED:
        return False
    return record.state.over or not follow


async def _decoded(epoch: SentEpoch) -> FetchedEpoch:
    small = epoch.raw_bytes <= SMALL_BYTES
    stream = arrow_stream(epoch) if small else await asyncio.to_thread(arrow_stream, epoch)
    return _fetched(epoch, stream)


def _fetched(epoch: SentEpoch, stream: bytes = b"") -> FetchedEpoch:
    return FetchedEpoch(epoch.channel, epoch.epoch, epoch.rows, epoch.watermark_us, stream, epoch)


async def _never() -> None:
    await asyncio.Event().wait()
