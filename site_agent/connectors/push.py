"""`push`: rows that clients send to the site's agent, read from the log that keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

import pyarrow as pa

from planner.relations.catalog import RelationKind
from planner.relations.connectors.common import LATEST, MAX_AHEAD
from planner.relations.connectors.push import FROM, PUSH
from site_agent.base.durable import write_atomically
from site_agent.base.errors import ConnectorError
from site_agent.connectors.sources import Offset, Poll, ReadLimit, Source, SourceContext, Table
from site_agent.engine import ArrowScan, MalformedRow, Scan, SetAside
from site_agent.ingest.ahead import Ahead, by_arrival
from site_agent.ingest.log import PushLog

FindLog = Callable[[str, datetime], PushLog]
"""The site's log of a stream, by its name and when it was declared."""

_TIME = pa.timestamp("us", tz="UTC")
START_NAME = "start.json"
MAX_EPOCH_BYTES = 64 * 1024 * 1024
"""Most that an epoch reads, in memory: unlike files, the rows of an epoch are there as a whole."""


class PushSource:
    """The offset is the number of the next record; where a query began is kept on disk before it is used."""

    def __init__(self, context: SourceContext, log: PushLog) -> None:
        self._context = context
        self._log = log
        self._latest = FROM.of(context.options) == LATEST
        self._max_ahead = MAX_AHEAD.of(context.options)

    def initial(self) -> Offset:
        """See `Source.initial`."""
        path = self._context.directory / START_NAME
        try:
            return {"record": int(json.loads(path.read_bytes())["record"])}
        except FileNotFoundError:
            record = self._log.kept.next_record if self._latest else self._log.kept.first_record
        except (ValueError, KeyError, TypeError) as error:
            raise ConnectorError(f"{path} is damaged: {error}", hint="submit the query again") from error
        write_atomically(path, json.dumps({"record": record}).encode())
        return {"record": record}

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        """See `Source.poll`. What comes before `start` is committed, so this reader needs it no longer."""
        first = _record(start)
        log = self._log
        # Asked for in this order: an end that is seen comes after every row.
        ended = log.ended
        end = log.kept.extent(first, rows=limit.rows, raw_bytes=min(limit.size_bytes, MAX_EPOCH_BYTES))
        log.room.advance(self._context.reader, first)
        left = log.kept.rows_from(end)
        ended = ended and end == log.kept.next_record
        floor_us = None if ended else log.floor_us(end)
        return Poll({"record": end}, empty=end == first, ended=ended, lag_rows=left, event_time_floor_us=floor_us)

    def scan(self, start: Offset, end: Offset) -> Scan:
        """See `Source.scan`. Rows that were too far ahead of the clock when the log stored them are set aside."""
        wanted = {*self._context.read_columns, self._context.event_time}
        columns = [c.name for c in self._context.columns if c.name in wanted]
        first, last = _record(start), _record(end)
        if self._context.by_arrival:
            return ArrowScan(self._arrived(first, last, [*columns, self._context.event_time]))
        if self._max_ahead is None:
            return ArrowScan(self._log.kept.read(first, last, columns))
        found = [
            by_arrival(record, self._context.event_time, self._max_ahead)
            for record in self._log.kept.records(first, last)
        ]
        ahead = [part for _, part in found if part.rows.num_rows]
        return ArrowScan(
            pa.concat_tables([self._log.kept.schema.empty_table(), *(rows for rows, _ in found)]).select(columns),
            SetAside(sum(part.rows.num_rows for part in ahead), partial(_malformed, ahead)) if ahead else None,
        )

    def _arrived(self, first: int, last: int, columns: Sequence[str]) -> pa.Table:
        """Columns of the records, of which one is the time at which each was stored."""
        name, kept = self._context.event_time, self._log.kept
        schema = kept.schema.append(pa.field(name, _TIME))
        tables = [
            record.rows.append_column(schema.field(name), pa.repeat(record.at_us, record.rows.num_rows).cast(_TIME))
            for record in kept.records(first, last)
        ]
        return pa.concat_tables([schema.empty_table(), *tables]).select(list(columns))

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Adopt a new `max_ahead`. The log itself adopts its retention, and no other option can change."""
        self._max_ahead = MAX_AHEAD.of(options)

    def close(self) -> None:
        """Nothing is held."""


class PushConnector:
    """See docs/connectors.md."""

    name = PUSH.name

    def __init__(self, find_log: FindLog) -> None:
        self._find_log = find_log

    def open_source(self, context: SourceContext) -> Source:
        """Raises SiteAgentError when an option is wrong, or the stream's log cannot be used."""
        context.check(PUSH, RelationKind.STREAM)
        return PushSource(context, self._find_log(context.relation, context.created_at))

    def open_table(self, context: SourceContext) -> Table:
        """Raises ConnectorError, always."""
        raise ConnectorError(f"{context.relation} is a table, and tables cannot be pushed to", hint="declare a stream")


def _malformed(ahead: Sequence[Ahead]) -> Iterator[MalformedRow]:
    for part in ahead:
        yield from part.malformed()


def _record(offset: Offset) -> int:
    record = offset["record"]
    if not isinstance(record, int):
        raise ConnectorError("a pushed stream is read from a record that is not known")
    return record
