"""Results: copies of queries' result channels that this site keeps for clients, until the master says they may go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from site_agent.channels.log import ChannelLog
from site_agent.errors import CorruptEpochError
from site_agent.port import Join
from site_agent.router import Router
from site_agent.tasks.spec import InputSpec, ResultSpec


@dataclass(frozen=True, slots=True)
class ResultStatus:
    query_id: str
    rows: int
    size_bytes: int
    complete: bool
    watermark_us: int | None
    starts_at_us: int | None = None
    """Results of events before may be missing, for channels were joined in the middle; None: none are."""


def reader_of(query_id: str) -> str:
    """Name under which the router knows this site's keeping of a query's results."""
    return f"results:{query_id}"


class ResultKeeper:
    """Subscribes to result channels and never lets go of their epochs by itself."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._specs: dict[str, ResultSpec] = {}
        self._logs: dict[str, dict[str, ChannelLog]] = {}

    @property
    def readers(self) -> frozenset[str]:
        return frozenset(reader_of(query_id) for query_id in self._specs)

    @property
    def channels(self) -> frozenset[str]:
        return frozenset(i.channel for spec in self._specs.values() for i in spec.inputs)

    async def apply(self, specs: Iterable[ResultSpec]) -> None:
        """Keep exactly these."""
        wanted = {spec.query_id: spec for spec in specs}
        for query_id in sorted(self._specs.keys() - wanted.keys()):
            await self._release(self._specs.pop(query_id))
        for query_id, spec in sorted(wanted.items()):
            self._specs[query_id] = spec
            await self._keep(spec)

    def statuses(self) -> tuple[ResultStatus, ...]:
        return tuple(self._status(spec, self._logs.get(q, {})) for q, spec in sorted(self._specs.items()))

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
        self._logs.pop(spec.query_id, None)
        for item in spec.inputs:
            await self._router.unsubscribe(item.channel, reader=reader_of(spec.query_id))

    def _status(self, spec: ResultSpec, logs: dict[str, ChannelLog]) -> ResultStatus:
        watermarks = [_watermark_us(log) for log in logs.values()]
        known = [w for w in watermarks if w is not None]
        starts = [_starts_at_us(i, logs[i.channel]) for i in spec.inputs if i.channel in logs]
        return ResultStatus(
            query_id=spec.query_id,
            rows=sum(_rows(log) for log in logs.values()),
            size_bytes=sum(log.retained_bytes for log in logs.values()),
            complete=len(logs) == len(spec.inputs) and all(log.end is not None for log in logs.values()),
            watermark_us=min(known) if known and len(known) == len(watermarks) else None,
            starts_at_us=max((at_us for at_us in starts if at_us is not None), default=None),
        )


def _rows(log: ChannelLog) -> int:
    """A damaged epoch must not silence the agent's reports; whoever fetches the results is told."""
    try:
        return log.rows_from(log.first_epoch)
    except CorruptEpochError:
        return 0


def _watermark_us(log: ChannelLog) -> int | None:
    standing = log.standing
    return standing.watermark_us if standing else None


def _starts_at_us(item: InputSpec, log: ChannelLog) -> int | None:
    """Right behind the last event that the epochs before the first one here may have had; None: there were none."""
    if item.join is not Join.LATE or not 0 < log.first_epoch < log.next_epoch:
        return None
    try:
        watermark_us = log.manifest(log.first_epoch).watermark_us
    except CorruptEpochError:
        return None
    return None if watermark_us is None else watermark_us + item.event_delay_us + 1
