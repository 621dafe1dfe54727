"""Results: copies of queries' result channels, which this site keeps for clients until the master lets them go.

Of a query that is not over, the oldest epochs beyond its limit go. The site waits for no client: one that asks for an
epoch that is gone is told so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from contract.tasks import ReadFrom
from site_agent.base.errors import CorruptEpochError
from site_agent.channels.epochs import Epochs
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark
from site_agent.port import InputRead
from site_agent.router import Router
from site_agent.tasks.spec import InputSpec, ResultsLimit, ResultSpec

TRIM_INTERVAL_S = 5.0
_CONTINUES = re.compile(r"\.g\d+$")
"""The channel of a task that has taken the place of another one has an id that ends like this."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ResultStatus:
    query_id: str
    rows: int
    size_bytes: int
    complete: bool
    watermark_us: int | None
    starts_at_us: int | None = None
    """Results of events before this instant may be missing: channels were joined in the middle; None: none are."""


def reader_of(query_id: str) -> str:
    """The name of the router's reader that keeps a query's results."""
    return f"results:{query_id}"


class ResultKeeper:
    """Subscribes to result channels, and acknowledges epochs only beyond a query's limit."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._specs: dict[str, ResultSpec] = {}
        self._logs: dict[str, dict[str, ChannelLog]] = {}
        self._kept_from: dict[tuple[str, str], int] = {}
        """By query with a limit, and by channel: the first epoch that is kept."""

    @property
    def readers(self) -> frozenset[str]:
        return frozenset(reader_of(query_id) for query_id in self._specs)

    @property
    def channels(self) -> frozenset[str]:
        return frozenset(i.channel for spec in self._specs.values() for i in spec.inputs)

    async def apply(self, specs: Iterable[ResultSpec]) -> None:
        """Keep the results of exactly these queries."""
        wanted = {spec.query_id: spec for spec in specs}
        for query_id in sorted(self._specs.keys() - wanted.keys()):
            await self._release(self._specs.pop(query_id))
        for query_id, spec in sorted(wanted.items()):
            self._specs[query_id] = spec
            await self._keep(spec)

    def statuses(self) -> tuple[ResultStatus, ...]:
        return tuple(self._status(spec, self._logs.get(q, {})) for q, spec in sorted(self._specs.items()))

    def reads(self) -> Iterator[tuple[str, InputRead]]:
        """How far each channel is copied, by the name of the reader: what is here counts as taken."""
        for query_id, logs in sorted(self._logs.items()):
            for name, log in sorted(logs.items()):
                yield reader_of(query_id), InputRead(name, log.next_epoch, log.next_epoch, 0, 0, _watermark_us(log))

    async def trim(self, now: datetime) -> None:
        """Acknowledge the epochs beyond the limits of queries. Epochs that other readers at this site need stay."""
        for query_id, spec in sorted(self._specs.items()):
            logs = self._logs.get(query_id, {})
            if spec.limit is not None and logs:
                first = {name: self._kept_from.get((query_id, name), 0) for name in logs}
                epochs = {name: log.epochs for name, log in logs.items()}
                kept = await self._router.offload.run(kept_from, epochs, first, spec.limit, now)
                for name in sorted(kept.keys() & self._logs.get(query_id, {}).keys()):
                    self._kept_from[query_id, name] = kept[name]
                    await self._router.offload.run(self._router.acknowledge, name, reader_of(query_id), kept[name] - 1)

    async def _keep(self, spec: ResultSpec) -> None:
        logs = self._logs.setdefault(spec.query_id, {})
        reader = reader_of(spec.query_id)
        for channel in sorted(self._router.subscriptions(reader).keys() - {item.channel for item in spec.inputs}):
            logs.pop(channel, None)
            await self._router.unsubscribe(channel, reader=reader)
        for item in spec.inputs:
            if item.channel not in logs:
                logs[item.channel] = await self._router.subscribe(
                    item.channel, item.site, reader=reader_of(spec.query_id), query_id=spec.query_id, keeps=True
                )

    async def _release(self, spec: ResultSpec) -> None:
        for name in self._logs.pop(spec.query_id, {}):
            self._kept_from.pop((spec.query_id, name), None)
        for item in spec.inputs:
            await self._router.unsubscribe(item.channel, reader=reader_of(spec.query_id))

    def _status(self, spec: ResultSpec, logs: dict[str, ChannelLog]) -> ResultStatus:
        ends = {name: log.end.for_query(spec.query_id) for name, log in logs.items() if log.end is not None}
        watermarks = [_watermark_us(log) for log in _newest(logs, ends)]
        known = [w for w in watermarks if w is not None]
        firsts = {end.successor_channel: end.next_epoch for end in ends.values()}
        starts = [
            _starts_at_us(i, logs[i.channel], max(i.from_epoch, firsts.get(i.channel, 0)))
            for i in spec.inputs
            if i.channel in logs
        ]
        return ResultStatus(
            query_id=spec.query_id,
            rows=sum(_rows(log) for log in logs.values()),
            size_bytes=sum(log.epochs.retained_bytes for log in logs.values()),
            complete=len(logs) == len(spec.inputs) == len(ends)
            and all(not end.successor_channel or end.successor_channel in logs for end in ends.values()),
            watermark_us=min(known) if known and len(known) == len(watermarks) else None,
            starts_at_us=max((at_us for at_us in starts if at_us is not None), default=None),
        )


def kept_from(
    channels: Mapping[str, Epochs], first: Mapping[str, int], limit: ResultsLimit, now: datetime
) -> dict[str, int]:
    """By channel, the first epoch that the limit lets a query keep; only channels in which it is later than `first`.

    The oldest epochs of all of its channels go first. The newest epoch of each channel stays.
    """
    positions = {name: max(first[name], epochs.first) for name, epochs in channels.items()}
    size_bytes = sum(epochs.bytes_from(positions[name]) for name, epochs in channels.items())
    while oldest := _oldest(channels, positions):
        written_at, name = oldest
        if size_bytes <= limit.size_bytes and written_at > now - limit.age:
            break
        size_bytes -= channels[name].stored_bytes(positions[name])
        positions[name] += 1
    return {name: epoch for name, epoch in positions.items() if epoch > max(first[name], channels[name].first)}


def _oldest(channels: Mapping[str, Epochs], positions: Mapping[str, int]) -> tuple[datetime, str] | None:
    """The channel with the oldest first epoch, and that epoch's time. A channel's newest epoch does not count."""
    passed = {name: epochs for name, epochs in channels.items() if positions[name] < epochs.next - 1}
    return min(
        ((epochs.written_at(positions[name]) or _LONG_AGO, name) for name, epochs in passed.items()), default=None
    )


def _rows(log: ChannelLog) -> int:
    """The rows that a channel holds. A damaged epoch must not stop the agent's reports; readers of the results are
    told."""
    try:
        return log.epochs.rows_from(log.first_epoch)
    except CorruptEpochError:
        return 0


def _watermark_us(log: ChannelLog) -> int | None:
    standing = log.standing
    return standing.watermark_us if standing else None


def _newest(logs: Mapping[str, ChannelLog], ends: Mapping[str, EndMark]) -> list[ChannelLog]:
    """Return, of each line of channels that continue one another, the newest that has anything here, else the first."""
    begun = {name for name, log in logs.items() if log.standing is not None or log.end is not None}
    continued = {name for name, end in ends.items() if end.successor_channel in begun}
    return [
        log for name, log in logs.items() if name not in continued and (name in begun or not _CONTINUES.search(name))
    ]


def _starts_at_us(item: InputSpec, log: ChannelLog, begins_at: int) -> int | None:
    """The instant right after the last event that epochs before the first one kept may contain; None: there are no such
    epochs. The channel never had any before `begins_at`."""
    if item.read_from is not ReadFrom.OLDEST or not begins_at < log.first_epoch < log.next_epoch:
        return None
    try:
        watermark_us = log.epochs.manifest(log.first_epoch).watermark_us
    except CorruptEpochError:
        return None
    return None if watermark_us is None else watermark_us + item.event_delay_us + 1
