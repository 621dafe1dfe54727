"""`generator`: deterministic rows from a seed, at a rate that may change while it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from zlib import crc32

from contract.times import to_us
from planner.relations.catalog import Column, RelationKind
from planner.relations.connectors.common import LATEST
from planner.relations.connectors.generator import (
    COLUMN,
    GENERATOR,
    NULL_FRACTION,
    PRESET,
    RATE_SCHEDULE,
    ROWS,
    SEED,
    STARTUP,
    rate_changes,
)
from planner.relations.widths import row_bytes
from planner.values.splits import FilePart
from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.columns import value_sql, with_nulls
from site_agent.connectors.generator.origin import Origin
from site_agent.connectors.generator.presets import preset_columns
from site_agent.connectors.generator.schedule import Schedule
from site_agent.connectors.generator.sql import birth_us, gap_us
from site_agent.connectors.sources import MAX_SPLITS, Offset, Poll, ReadLimit, Source, SourceContext, Split, Table
from site_agent.engine import Field, RangeScan, Scan

logger = logging.getLogger(__name__)


class GeneratorSource:
    """Rows by number. The offset is the number of the next row; none yet: where a `latest` source will start."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._total = ROWS.of(context.options)
        self._latest = STARTUP.of(context.options) == LATEST
        self._schedule = Schedule(rate_changes(context.options, context.created_at))
        # Wrong options are to be found now, not with the first row.
        _value_expressions(context, born_us="0L", gap_us="0L")

    def initial(self) -> Offset:
        return {"row": None if self._latest else 0}

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        """See `Source.poll`."""
        now_us = to_us(now)
        due = self._capped(self._schedule.rows_by(now_us))
        first = start["row"] if isinstance(start["row"], int) else due
        end = max(first, min(due, first + limit.rows))
        return Poll(
            {"row": end},
            empty=end == first,
            ended=end == self._total,
            lag_rows=max(0, due - end),
            event_time_floor_us=self._floor_us(end, now_us),
        )

    def scan(self, start: Offset, end: Offset) -> Scan:
        """See `Source.scan`."""
        first, last = _row(start), _row(end)
        born = birth_us(self._schedule, first, last)
        gap = gap_us(self._schedule, first, last)
        return RangeScan(first, last, _value_expressions(self._context, born_us=born, gap_us=gap))

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Take over the rate schedule; nothing else can change while rows are read."""
        written = RATE_SCHEDULE.of(options)
        if written is None:
            logger.warning(
                "relation=%s site=%s: changed options are for new queries only, except a rate with its schedule",
                self._context.relation,
                self._context.site,
            )
        else:
            self._schedule = Schedule(written)

    def close(self) -> None:
        """Nothing is held."""

    def _capped(self, rows: int) -> int:
        return rows if self._total is None else min(rows, self._total)

    def _floor_us(self, end: int, now_us: int) -> int:
        """Rows that are not due yet come after now, also when the rate changes."""
        born_us = self._schedule.time_us(end)
        return now_us if born_us is None else min(now_us, born_us)


class GeneratorTable:
    """The first `rows` rows."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._rows = ROWS.of(context.options) or 0
        # All rows are there at once: what would come between them has passed.
        self._values = _value_expressions(context, born_us=f"{to_us(context.created_at)}L", gap_us="0L")

    def scan(self, split: Split | None = None) -> Scan:
        """See `Table.scan`."""
        if split is None or not split.parts:
            return RangeScan(0, self._rows, self._values)
        (part,) = split.parts
        return RangeScan(part.offset, part.offset + part.length, self._values)

    def splits(self, split_bytes: int) -> Sequence[Split]:
        """Ranges of row numbers, by what rows of these types are taken to be long: nothing is on disk."""
        size_bytes = max(1, row_bytes(Column(column.name, column.type) for column in self._context.columns))
        count = min(self._rows, MAX_SPLITS, max(1, round(self._rows * size_bytes / max(1, split_bytes))))
        bounds = [self._rows * number // count for number in range(count + 1)]
        return tuple(
            Split((FilePart("", first, end - first),), (end - first) * size_bytes) for first, end in pairwise(bounds)
        )


class GeneratorConnector:
    """See docs/connectors.md."""

    name = GENERATOR.name

    def open_source(self, context: SourceContext) -> Source:
        """Raises ConnectorError when an option is wrong for these columns."""
        context.check(GENERATOR, RelationKind.STREAM)
        return GeneratorSource(context)

    def open_table(self, context: SourceContext) -> Table:
        """Raises ConnectorError when an option is wrong for these columns."""
        context.check(GENERATOR, RelationKind.TABLE)
        return GeneratorTable(context)


def _seed_of(context: SourceContext) -> int:
    """The seed as given; else one made from the site's name, so that no two sites make the same rows."""
    given = SEED.of(context.options)
    return crc32(context.site.encode()) if given is None else given


def _value_expressions(context: SourceContext, *, born_us: str, gap_us: str) -> tuple[tuple[str, str], ...]:
    """SQL by column for the columns that are read, given SQL for a row's event time and the time to the next row."""
    specs = {name.lower(): spec for name, spec in GENERATOR.family(COLUMN, context.options).items()}
    nulls = {name.lower(): share for name, share in GENERATOR.family(NULL_FRACTION, context.options).items()}
    origin = Origin(context.site, _seed_of(context), born_us, gap_us)
    preset = preset_columns(PRESET.of(context.options))
    wanted = set(context.read_columns) | {context.event_time}
    arrival = (Field(context.event_time, "TIMESTAMP"),) if context.by_arrival else ()
    expressions = []
    for column in (*context.columns, *arrival):
        if column.name not in wanted:
            continue
        key = column.name.lower()
        if column.name == context.event_time:
            expressions.append((column.name, f"CAST(timestamp_micros({born_us}) AS {column.type})"))
            continue
        if key in preset and key not in specs:
            made = preset[key](column, origin)
        else:
            made = value_sql(column, specs.get(key), seed=origin.seed)
        sql = with_nulls(column, made, seed=origin.seed, null_fraction=nulls.get(key, 0.0))
        expressions.append((column.name, sql))
    return tuple(expressions)


def _row(offset: Offset) -> int:
    row = offset["row"]
    if not isinstance(row, int):
        raise ConnectorError("a generator is read from a row that is not known yet")
    return row
