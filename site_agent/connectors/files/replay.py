"""`files` in mode `replay`: rows in the order of their event times, at a chosen speed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from contract.times import to_us
from planner.relations.connectors.files import REPLAY_START, SPEED
from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.prepared import PreparedFiles
from site_agent.connectors.files.timeline import Timeline
from site_agent.connectors.sources import Offset, Poll, ReadLimit, SourceContext
from site_agent.engine import Scan, SlicesScan

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """Event time runs `speed` times as fast as the clock; it was `event_us` when the clock said `clock_us`."""

    speed: Fraction
    clock_us: int
    event_us: int

    def event_time_us(self, clock_us: int) -> int:
        return self.event_us + int((clock_us - self.clock_us) * self.speed)

    def at_speed(self, speed: Fraction, clock_us: int) -> Pace:
        """Go on from here at another speed."""
        return Pace(speed, clock_us, self.event_time_us(clock_us))


class ReplaySource:
    """The offset is the number of the next row. After a restart, time goes on from the last row that was read."""

    def __init__(self, context: SourceContext, prepared: PreparedFiles) -> None:
        self._context = context
        self._prepared = prepared
        self._speed = SPEED.of(context.options)
        start = REPLAY_START.of(context.options)
        self._start_us = to_us(start) if start is not None else None
        self._pace: Pace | None = None
        self._timeline: Timeline | None = None

    def initial(self) -> Offset:
        """Prepares the files, if nobody has yet."""
        self._opened()
        return {"row": 0}

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        """See `Source.poll`."""
        timeline = self._opened()
        first = _row(start, timeline)
        due = max(first, self._due(first, to_us(now), timeline))
        end = min(due, first + max(1, min(limit.rows, limit.size_bytes // timeline.row_bytes)))
        return Poll(
            {"row": end},
            empty=end == first and not (timeline.rows == 0 and timeline.malformed),
            ended=end == timeline.rows,
            lag_rows=due - end,
            event_time_floor_us=timeline.time_us(end),
        )

    def scan(self, start: Offset, end: Offset) -> Scan:
        """See `Source.scan`."""
        timeline = self._opened()
        first = _row(start, timeline)
        slices = timeline.slices(first, _row(end, timeline))
        # Malformed rows have no event time that could be trusted: they come with the first rows.
        malformed = timeline.malformed if first == 0 else None
        return SlicesScan(slices, self._context.columns, self._context.read_columns, malformed)

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Take over `replay_speed`; nothing else can change while rows are read."""
        self._speed = SPEED.of(options)
        logger.info(
            "relation=%s site=%s: changed options take effect for new queries only, except %s",
            self._context.relation,
            self._context.site,
            SPEED.name,
        )

    def close(self) -> None:
        """Nothing is held."""

    def _opened(self) -> Timeline:
        if self._timeline is None:
            self._timeline = self._prepared.open(self._context)
        return self._timeline

    def _due(self, first: int, clock_us: int, timeline: Timeline) -> int:
        speed = self._speed
        if speed is None:
            return timeline.rows
        if self._pace is None:
            self._pace = Pace(speed, clock_us, self._event_time_at(first, timeline))
        elif self._pace.speed != speed:
            self._pace = self._pace.at_speed(speed, clock_us)
        return timeline.rows_by(self._pace.event_time_us(clock_us))

    def _event_time_at(self, first: int, timeline: Timeline) -> int:
        """What event time it is when row `first` comes next."""
        read_us = timeline.time_us(first - 1)
        begin_us = self._start_us if self._start_us is not None else timeline.first_time_us
        return max((t for t in (read_us, begin_us) if t is not None), default=0)


def _row(offset: Offset, timeline: Timeline) -> int:
    row = offset["row"]
    if not isinstance(row, int) or row > timeline.rows:
        raise ConnectorError(f"a replay of {timeline.rows} rows cannot go on at row {row}")
    return row
