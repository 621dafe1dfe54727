"""The input of one task."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from contract.tasks import ReadFrom
from site_agent.base.errors import CorruptEpochError
from site_agent.base.waiting import first_of
from site_agent.channels.codec import BIN_COLUMN, decode_part
from site_agent.channels.manifest import EndMark, EpochManifest, select_bins
from site_agent.port.inputs import InputState, Origin, Pick, PortInput, pick_epochs
from site_agent.port.watermark import InputWatermark, port_watermark
from site_agent.router import Router


@dataclass(frozen=True, slots=True)
class PortBatch:
    """New rows. Later rows with an event time before `watermark_us` come only from channels that were idle."""

    tables: tuple[pa.Table, ...]
    origins: tuple[Origin, ...]
    """Of each table."""
    cursors: Mapping[str, int]
    """Per channel, the next epoch to take after this batch."""
    watermark_us: int | None
    ended: bool
    """All channels ended for good; `END_OF_TIME_US` is the watermark."""
    rows: int
    idle: bool = False
    """All channels that have not ended are idle: the watermark stays until one of them has rows."""
    rows_by_bin: Mapping[int, int] = field(default_factory=dict)
    """The number of rows in each bin, of those that are in bins."""


@dataclass(frozen=True, slots=True)
class InputRead:
    """How far a reader has come in a channel."""

    channel: str
    stored_epoch: int
    """The next epoch that the site does not hold."""
    next_epoch: int
    """The next one that the reader takes."""
    waiting_rows: int = 0
    taken_rows: int = 0
    """Since the reader began."""
    watermark_us: int | None = None
    """Of the channel, as far as it was taken."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The rows that are at this site and were not taken."""

    rows: int
    watermark_us: int | None
    """The port has this watermark once all of them are taken."""


class Port:
    """Takes epochs of several channels, each once and in its channel's order. Belongs to one event loop.

    `beside` are channels that the reader reads by itself: the port leaves these subscriptions alone. If it
    `waits_for_idle` channels, their watermarks count as those of others.
    """

    def __init__(
        self,
        router: Router,
        *,
        reader: str,
        query_id: str,
        beside: Collection[str] = (),
        waits_for_idle: bool = False,
    ) -> None:
        self._router = router
        self._reader = reader
        self._query_id = query_id
        self._beside = frozenset(beside)
        self._waits_for_idle = waits_for_idle
        self._states: dict[str, InputState] = {}
        self._known_cursors: dict[str, int] = {}
        self._done: frozenset[str] = frozenset()
        self._skipped: dict[str, int] = {}
        self._watermark_us: int | None = None
        self._returned: tuple[int | None, bool, bool] = (None, False, False)
        self._turn = 0
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()

    def leave_alone(self, channel: str) -> None:
        """Count a channel among those `beside`."""
        self._beside |= {channel}

    @property
    def cursors(self) -> Mapping[str, int]:
        """Per channel, the next epoch to take."""
        taken = {channel: state.cursor for channel, state in self._states.items()}
        return dict(sorted((taken | self._skipped).items()))

    @property
    def watermark_us(self) -> int | None:
        return self._watermark_us

    @property
    def lag_rows(self) -> int:
        """Rows that are at this site and not taken yet; those of a damaged channel are not counted."""
        return sum(_waiting_rows(state) for state in self._states.values() if state.waiting_epochs)

    @property
    def reads(self) -> tuple[InputRead, ...]:
        """How far each channel has been read."""
        return tuple(
            InputRead(
                channel,
                state.log.next_epoch,
                state.cursor,
                _waiting_rows(state) if state.waiting_epochs else 0,
                state.taken_rows,
                state.says.watermark_us,
            )
            for channel, state in sorted(self._states.items())
        )

    @property
    def inputs(self) -> tuple[PortInput, ...]:
        """The channels that feed the port now, successors included."""
        return tuple(state.source for _, state in sorted(self._states.items()))

    def is_near(self, epochs: int) -> bool:
        """Return whether each channel has at most `epochs` untaken epochs here, and is not behind the reader."""
        states = [state for state in self._states.values() if not (state.ended or state.missed)]
        return all(0 <= state.log.next_epoch - state.cursor <= epochs for state in states)

    @property
    def missed_inputs(self) -> tuple[str, ...]:
        """Channels that are not read because their first epochs were removed, or not copied to this site whole."""
        return tuple(sorted(channel for channel, state in self._states.items() if state.missed))

    @property
    def incomplete_until_us(self) -> int | None:
        """Rows with event times up to here may be missing, because channels were joined in the middle; None:
        none are."""
        known = [s.incomplete_until_us for s in self._states.values() if s.incomplete_until_us is not None]
        return max(known, default=None)

    @property
    def ended_channels(self) -> tuple[str, ...]:
        """The channels that ended for good and whose epochs were all taken."""
        ended = {channel for channel, state in self._states.items() if state.says.ended}
        return tuple(sorted(ended | self._skipped.keys()))

    def restore(
        self, cursors: Mapping[str, int], ended: Iterable[str] = (), *, watermark_us: int | None = None
    ) -> None:
        """Resume from a checkpoint: next epoch per channel, channels that ended for good, the port's watermark.

        Call it before `set_inputs`. What the cursors have passed is acknowledged when its channel is subscribed.
        """
        self._known_cursors.update(cursors)
        self._done = frozenset(ended)
        self._watermark_us = watermark_us
        self._returned = (watermark_us, False, False)

    async def set_inputs(self, inputs: Sequence[PortInput]) -> None:
        """Read exactly these channels and their successors, from now on; also while `next` waits.

        A channel that joins again goes on where it was left.

        Raises:
            ChannelError: a channel cannot be subscribed.
        """
        async with self._lock:
            listed = frozenset(item.channel for item in inputs)
            self._skipped = {channel: self._known_cursors.get(channel, 0) for channel in listed & self._done}
            for item in inputs:
                if item.channel not in self._skipped:
                    await self._join_chain(item)
            wanted = self._with_successors(listed)
            known = self._states.keys() | self._router.subscriptions(self._reader).keys()
            for channel in known - self._beside:
                if channel not in wanted:
                    await self._leave(channel)
        self._changed.set()

    async def next(self, *, max_bytes: int) -> PortBatch:
        """Wait for epochs, an end, or a change of the watermark or of idleness, and take them.

        At least one epoch is taken if there is any, and more up to `max_bytes` of rows as they lie in memory.
        Cancelling it loses nothing.

        Raises:
            TrimmedEpochError: epochs that were not taken yet are gone.
            CorruptEpochError: an epoch is damaged on disk and cannot be fetched again.
            UnknownChannelError: a channel of this site was removed.
            LostChannelError: the site of a channel answers, but does not send it.
        """
        while True:
            self._changed.clear()
            try:
                async with self._lock:
                    batch = await self._take(max_bytes)
            except CorruptEpochError as damage:
                # Without the lock: this may take as long as the producer is unreachable, and inputs may change
                # meanwhile.
                await self._router.put_right(damage)
                continue
            if batch is not None:
                return batch
            await self._wait()

    async def let_come(self, is_enough: Callable[[Waiting], bool], *, most_s: float) -> None:
        """Return once what waits is enough, a channel has ended, fallen idle or woken, the inputs have changed, or
        `most_s` seconds are over.

        Nothing is taken. Cancelling it loses nothing.

        Raises:
            UnknownChannelError: a channel of this site was removed.
            LostChannelError: the site of a channel answers, but does not send it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._let_come(is_enough)

    async def _let_come(self, is_enough: Callable[[Waiting], bool]) -> None:
        while True:
            self._changed.clear()
            states = [state for state in self._states.values() if not state.ended and not state.missed]
            said = [state.in_all() for state in states]
            if any(one is None for one in said) or is_enough(self._waiting(states, [one for one in said if one])):
                return
            waits = (state.log.state.wait(max(state.cursor, state.log.next_epoch)) for state in states)
            await first_of(waits, self._changed)
            if self._changed.is_set():
                return

    def _waiting(self, states: Sequence[InputState], said: Sequence[InputWatermark]) -> Waiting:
        rows = sum(_waiting_rows(state) for state in states if state.waiting_epochs)
        return Waiting(rows, port_watermark(self._watermark_us, said))

    async def take_before(self, cursors: Mapping[str, int], *, max_bytes: int) -> PortBatch | None:
        """Of the epochs before these cursors the next ones, as `next`; None: there are none. It does not wait for any.

        Raises:
            ChannelError: as `next`.
        """
        while True:
            try:
                async with self._lock:
                    for state in self._states.values():
                        state.settle()
                    if not any(s.cursor < cursors.get(c, 0) and s.waiting_epochs for c, s in self._states.items()):
                        return None
                    return await self._take(max_bytes, before=cursors)
            except CorruptEpochError as damage:
                await self._router.put_right(damage)

    def acknowledge(self, cursors: Mapping[str, int]) -> None:
        """The task does not need the epochs before these cursors, even after a crash. May be called from any thread.

        Raises:
            ChannelError: a cursor is beyond its channel, or the disk refused.
        """
        for channel, cursor in cursors.items():
            needless = self._here_before(channel, cursor)
            if needless > 0:
                self._router.acknowledge(channel, self._reader, needless - 1)

    def _here_before(self, channel: str, cursor: int) -> int:
        """The cursor, but no more than a copy holds that is behind what the reader has taken elsewhere, or before."""
        state = self._states.get(channel)
        return cursor if state is None or cursor > state.cursor else min(cursor, state.log.next_epoch)

    async def close(self) -> None:
        """Stop reading. Subscriptions stay, so that a restarted task resumes; call `set_inputs([])` first to give them
        up."""
        async with self._lock:
            self._states.clear()

    async def _take(self, max_bytes: int, before: Mapping[str, int] | None = None) -> PortBatch | None:
        states = list(self._states.values())
        for state in states:
            state.settle()
            await self._give_up(state)
        picks = await self._router.offload.run(pick_epochs, states, max_bytes=max_bytes, before=before)
        read = await self._router.offload.run(_read, picks)
        ending = [state for state in states if _at_end(state, picks)]
        for state in [s for s in ending if s.joining and all(pick.state is not s for pick in picks)]:
            # Without a standing, nothing tells how far its rows went.
            state.missed = True
            ending.remove(state)
        for state in ending:
            await self._join_successor(state)
        # No await from here on: a cancelled call must not advance the cursors.
        self._advance(picks, read)
        for state in ending:
            self._end(state)
        taken = [
            (Origin(pick.state.source.channel, pick.epoch, pick.state.source.view), table)
            for pick, (_, table) in zip(picks, read, strict=True)
            if table is not None
        ]
        batch = self._batch(taken, bool(picks or ending))
        return None if batch is None else replace(batch, rows_by_bin=_rows_by_bin(picks, read))

    async def _give_up(self, state: InputState) -> None:
        """Release a channel that this reader will not read."""
        if state.missed and not state.given_up:
            await self._router.unsubscribe(state.source.channel, self._reader)
            state.given_up = True

    def _advance(self, picks: Sequence[Pick], read: Sequence[tuple[EpochManifest, pa.Table | None]]) -> None:
        for pick, (manifest, rows) in zip(picks, read, strict=True):
            self._turn += 1
            state = pick.state
            state.cursor, state.resumed, state.last_turn = pick.epoch + 1, True, self._turn
            state.taken_rows += rows.num_rows if rows is not None else 0
            state.hear(manifest.standing)

    def _batch(self, taken: Sequence[tuple[Origin, pa.Table]], something: bool) -> PortBatch | None:
        heard = [state.heard() for state in self._states.values() if not state.ended or state.says.ended]
        heard += [InputWatermark(ended=True)] * len(self._skipped)
        counted = [replace(item, idle=False) for item in heard] if self._waits_for_idle else heard
        self._watermark_us = port_watermark(self._watermark_us, counted)
        ended = bool(heard) and all(item.ended for item in heard)
        live = [item for item in heard if not item.ended]
        idle = bool(live) and all(item.idle for item in live)
        if not something and (self._watermark_us, ended, idle) == self._returned:
            return None
        self._returned = (self._watermark_us, ended, idle)
        tables = tuple(table for _, table in taken)
        rows = sum(table.num_rows for table in tables)
        origins = tuple(origin for origin, _ in taken)
        return PortBatch(tables, origins, self.cursors, self._watermark_us, ended, rows, idle)

    def _end(self, state: InputState) -> None:
        state.ended = True
        end = self._end_of(state)
        if end is None or not end.successor_channel:
            state.says = replace(state.says, ended=True, idle=False)
            return
        successor = self._states[end.successor_channel]
        if successor.says.watermark_us is None and not successor.ended:
            successor.says = replace(successor.says, watermark_us=state.says.watermark_us, idle=False)

    async def _join_chain(self, item: PortInput) -> None:
        """Join a channel, and after a restart also its successors that had been joined before."""
        state: InputState | None = await self._join(item)
        joined = set()
        while state is not None and state.source not in joined and _at_end(state, ()):
            joined.add(state.source)
            state = await self._join_successor(state)

    async def _join_successor(self, state: InputState) -> InputState | None:
        end = self._end_of(state)
        if end is None or not end.successor_channel:
            return None
        return await self._join(_successor_of(state.source, end), continues=True)

    async def _join(self, item: PortInput, *, continues: bool = False) -> InputState:
        """`continues`: all epochs of the channel that it continues were taken, so none of its own may be missing."""
        if item.channel in self._states:
            return self._states[item.channel]
        log = await self._router.subscribe(item.channel, item.site, self._reader, query_id=self._query_id)
        cursor = self._known_cursors.pop(item.channel, None)
        if cursor:
            known = min(cursor, log.next_epoch)
            await self._router.offload.run(self.acknowledge, {item.channel: known})
        resumed = continues or bool(cursor)
        state = self._states[item.channel] = InputState(item, log, cursor or item.from_epoch, resumed=resumed)
        held_from = self._router.held_from(item.channel, item.bins)
        if held_from is not None:
            state.begin_behind(held_from)
        state.missed = held_from is None or (bool(held_from) and max(state.cursor, log.first_epoch) < held_from)
        return state

    async def _leave(self, channel: str) -> None:
        state = self._states.pop(channel, None)
        if state is not None:
            self._known_cursors[channel] = state.cursor
        await self._router.unsubscribe(channel, self._reader)

    def _with_successors(self, channels: Iterable[str]) -> set[str]:
        """Successors stay while the channel that they continue is listed, also when the list is older than they are."""
        wanted: set[str] = set()
        todo = list(channels)
        while todo:
            channel = todo.pop()
            if channel not in wanted:
                wanted.add(channel)
                end = self._end_of(self._states[channel]) if channel in self._states else None
                todo += [end.successor_channel] if end and end.successor_channel else []
        return wanted

    def _end_of(self, state: InputState) -> EndMark | None:
        """Return how a channel has ended for the port's query."""
        end = state.log.end
        return None if end is None else end.for_query(self._query_id)

    async def _wait(self) -> None:
        states = [state for state in self._states.values() if not state.ended and not state.missed]
        waits = (state.log.state.wait(state.cursor, or_standing=state.unheard) for state in states)
        await first_of(waits, self._changed)


def _read(picks: Sequence[Pick]) -> list[tuple[EpochManifest, pa.Table | None]]:
    return [_rows_of(pick) for pick in picks]


def _rows_of(pick: Pick) -> tuple[EpochManifest, pa.Table | None]:
    manifest, encoded = pick.state.log.epochs.read_encoded(pick.epoch)
    if encoded is None:
        return manifest, None
    bins = pick.state.source.bins
    rows = decode_part(encoded, manifest.bins, bins=bins)
    if manifest.bins and pick.state.source.with_bins:
        own = select_bins(manifest.bins, bins) if bins else manifest.bins
        values, counts = [item.bin for item in own], [item.rows for item in own]
        rows = rows.append_column(BIN_COLUMN, pa.array(np.repeat(np.array(values, np.int64), counts)))
    return manifest, rows if rows.num_rows else None


def _rows_by_bin(picks: Sequence[Pick], read: Sequence[tuple[EpochManifest, pa.Table | None]]) -> Mapping[int, int]:
    rows: Counter[int] = Counter()
    for pick, (manifest, _) in zip(picks, read, strict=True):
        bins = pick.state.source.bins
        for item in select_bins(manifest.bins, bins) if bins else manifest.bins:
            rows[item.bin] += item.rows
    return rows


def _waiting_rows(state: InputState) -> int:
    try:
        return state.log.epochs.rows_from(state.cursor)
    except CorruptEpochError:
        # Taking the epoch repairs it, or raises what is wrong.
        return 0


def _successor_of(source: PortInput, end: EndMark) -> PortInput:
    """Return what is read like the source, from the first epoch of the channel that continues it on."""
    site = end.successor_site or source.site
    own = replace(source, read_from=ReadFrom.OWN, event_delay_us=0)
    return replace(own, channel=end.successor_channel, site=site, from_epoch=end.next_epoch)


def _at_end(state: InputState, picks: Sequence[Pick]) -> bool:
    """Whether the channel has ended, and these picks take its last epoch unless that was taken before."""
    cursor = max((pick.epoch + 1 for pick in picks if pick.state is state), default=state.cursor)
    return not state.ended and not state.missed and state.log.end is not None and cursor >= state.log.next_epoch
