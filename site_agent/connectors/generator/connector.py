"""`generator`: deterministic rows from a seed, at a rate that may change while it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from zlib import crc32

from contract.times import to_us
from planner.relations.catalog import Column
from planner.relations.widths import row_bytes
from site_agent.base.errors import ConnectorError
from site_agent.base.options import (
    COMMON_OPTIONS,
    IDLE_TIMEOUT,
    MAX_AHEAD,
    Checked,
    Option,
    one_of,
    parse_positive_int,
    parse_timestamp,
    refuse_unknown,
    require,
)
from site_agent.connectors.generator.columns import (
    PREFIX,
    column_specs,
    null_fractions,
    refuse_unknown_columns,
    value_sql,
    with_nulls,
)
from site_agent.connectors.generator.presets import PRESETS, Origin, preset_columns
from site_agent.connectors.generator.schedule import MAX_ROWS_PER_SECOND, Schedule
from site_agent.connectors.generator.sql import birth_us
from site_agent.connectors.sources import MAX_SPLITS, Offset, Poll, ReadLimit, Source, SourceContext, Split, Table
from site_agent.engine import FilePart, RangeScan, Scan

logger = logging.getLogger(__name__)

EARLIEST, LATEST = "earliest", "latest"
_SCHEDULE_TEXT = "a JSON list of [microseconds since 1970, rows per second], in the order of time"


def _parse_rate(text: str) -> Fraction:
    rate = Fraction(text)
    if not 0 <= rate <= MAX_ROWS_PER_SECOND:
        raise ValueError(text)
    return rate


def _parse_optional_int(text: str) -> int | None:
    return parse_positive_int(text)


def _parse_optional_seed(text: str) -> int | None:
    return int(text)


def _parse_optional_timestamp(text: str) -> datetime | None:
    return parse_timestamp(text)


def _parse_optional_schedule(text: str) -> Schedule | None:
    return Schedule.from_json(text)


RATE = Option("rows_per_second", _parse_rate, f"a number from 0 to {MAX_ROWS_PER_SECOND}", Fraction(10))
ROWS = Option("rows", _parse_optional_int, "a whole number of at least 1", None)
SEED = Option("seed", _parse_optional_seed, "a whole number", None)
START = Option("start", _parse_optional_timestamp, "a time as in 2026-01-31T12:00:00Z", None)
STARTUP = Option("startup", one_of(EARLIEST, LATEST), "earliest or latest", EARLIEST)
PRESET = Option("preset", one_of(*PRESETS), ", ".join(PRESETS), "")
SCHEDULE = Option("rate_schedule", _parse_optional_schedule, _SCHEDULE_TEXT, None)
_OPTIONS: tuple[Checked, ...] = (RATE, ROWS, SEED, START, STARTUP, PRESET, SCHEDULE, IDLE_TIMEOUT, MAX_AHEAD)


def schedule_of(options: Mapping[str, str], created_at: datetime) -> Schedule:
    """When rows are born: by `rate_schedule`, else `rows_per_second` from `start` on.

    Raises:
        ConnectorError: an option is wrong.
    """
    written = SCHEDULE.of(options)
    if written is not None:
        return written
    start = START.of(options) or created_at
    return Schedule([(to_us(start), RATE.of(options))])


class GeneratorSource:
    """Rows by number. The offset is the number of the next row; none yet: where a `latest` source will start."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._total = ROWS.of(context.options)
        self._latest = STARTUP.of(context.options) == LATEST
        self._schedule = schedule_of(context.options, context.created_at)
        # Wrong options are to be found now, not with the first row.
        _value_expressions(context, born_us="0L")

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
        born_us = birth_us(self._schedule, first, last)
        return RangeScan(first, last, _value_expressions(self._context, born_us=born_us))

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Take over the rate schedule; nothing else can change while rows are read."""
        written = SCHEDULE.of(options)
        if written is None:
            logger.warning(
                "relation=%s site=%s: changed options are for new queries only, except a rate with its schedule",
                self._context.relation,
                self._context.site,
            )
        else:
            self._schedule = written

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
        require(context.options, ROWS.name, allowed=ROWS.allowed)
        self._context = context
        self._rows = ROWS.of(context.options) or 0
        self._values = _value_expressions(context, born_us=f"{to_us(context.created_at)}L")

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

    name = "generator"

    def check(self, options: Mapping[str, str]) -> None:
        """See `Connector.check`."""
        refuse_unknown(options, (*COMMON_OPTIONS, *(o.name for o in _OPTIONS)), prefixes=(PREFIX,))
        for option in _OPTIONS:
            option.of(options)
        column_specs(options)
        null_fractions(options)

    def open_source(self, context: SourceContext) -> Source:
        """Raises ConnectorError when an option is wrong for these columns."""
        self.check(context.options)
        return GeneratorSource(context)

    def open_table(self, context: SourceContext) -> Table:
        """Raises ConnectorError when an option is wrong for these columns."""
        self.check(context.options)
        return GeneratorTable(context)


def _seed_of(context: SourceContext) -> int:
    """The seed as given; else one made from the site's name, so that no two sites make the same rows."""
    given = SEED.of(context.options)
    return crc32(context.site.encode()) if given is None else given


def _value_expressions(context: SourceContext, *, born_us: str) -> tuple[tuple[str, str], ...]:
    """SQL by column for the columns that are read, given SQL for a row's event time in microseconds."""
    refuse_unknown_columns(context.options, context.columns)
    specs, nulls = column_specs(context.options), null_fractions(context.options)
    origin = Origin(context.site, _seed_of(context), born_us)
    preset = preset_columns(PRESET.of(context.options))
    wanted = set(context.read_columns) | {context.event_time}
    expressions = []
    for column in context.columns:
        if column.name not in wanted:
            continue
        key = column.name.lower()
        if column.name == context.event_time:
            if key in specs or key in nulls:
                raise ConnectorError(
                    f"column {column.name} is the event time and follows the rate",
                    hint=f"leave out '{PREFIX}{column.name}'",
                )
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
