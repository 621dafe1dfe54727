"""Connectors whose rows need no Spark: a steady stream and a table by the product's generator, a stream of bursts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from contract.times import to_us
from planner.relations.catalog import RelationKind
from planner.relations.connectors.generator import GENERATOR
from planner.values.splits import FilePart
from site_agent.connectors.generator.connector import GeneratorConnector, GeneratorSource, GeneratorTable
from site_agent.connectors.sources import Offset, Poll, ReadLimit, Source, SourceContext, Split, Table
from site_agent.engine import ArrowScan, Scan
from tests.grammar.tables import TABLES
from tests.simulation import drawntables, rows
from tests.simulation.rows import DISORDER_S, ROWS_TOGETHER, TAPS_TOGETHER, USERS

ROW_BYTES = 20
"""A row of a drawn table is told to have this size."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the sources of a world know of it."""

    first_site: str
    rows: int
    clicks_from_s: float
    """When the first row of the steady stream was born."""
    released: Callable[[], bool]
    """Whether the last bursts may come."""


def _numbers(start: Offset, end: Offset) -> range:
    first, last = start["row"], end["row"]
    assert isinstance(first, int)
    assert isinstance(last, int)
    return range(first, last)


class ClicksSource(GeneratorSource):
    """The generator's offsets and rate, with rows that need no Spark."""

    def __init__(self, context: SourceContext, shape: Shape) -> None:
        super().__init__(context)
        self._context = context
        self._shape = shape

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        """See `Source.poll`."""
        found = super().poll(start, now=now, limit=limit)
        numbers = _numbers(start, found.end)
        end = numbers.stop
        if not found.ended and end % ROWS_TOGETHER:
            end = max(numbers.start, end // ROWS_TOGETHER * ROWS_TOGETHER)
        floor_us = min(to_us(now), self._schedule.time_us(end) or to_us(now)) - round(DISORDER_S * 1e6)
        return replace(found, end={"row": end}, empty=end == numbers.start, event_time_floor_us=floor_us)

    def scan(self, start: Offset, end: Offset) -> Scan:
        """See `Source.scan`."""
        wanted = {*self._context.read_columns, self._context.event_time}
        found = rows.clicks(self._context.site, _numbers(start, end), self._shape.clicks_from_s)
        return ArrowScan(found.select([name for name in found.column_names if name in wanted]))


class TapsSource:
    """Bursts with silence between them. The offset is the number of the next row."""

    def __init__(self, context: SourceContext, shape: Shape) -> None:
        self._context = context
        self._shape = shape
        self._bursts = rows.bursts_s(context.site, shape.first_site, shape.rows)

    def initial(self) -> Offset:
        """See `Source.initial`."""
        return {"row": 0}

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        """See `Source.poll`. It promises nothing, as sources of files and pushes."""
        now_us, released = to_us(now), self._shape.released()
        due = sum(rows.at_us(at_s) <= now_us for at_s in self._bursts)
        ended = released and due == len(self._bursts)
        first = _numbers(start, {"row": 0}).start
        end = max(first, (due + ended) * TAPS_TOGETHER)
        return Poll({"row": end}, empty=end == first, ended=ended)

    def scan(self, start: Offset, end: Offset) -> Scan:
        """See `Source.scan`."""
        wanted = {*self._context.read_columns, self._context.event_time}
        found = rows.taps(self._context.site, self._bursts, _numbers(start, end))
        return ArrowScan(found.select([name for name in found.column_names if name in wanted]))

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Nothing can change."""

    def close(self) -> None:
        """Nothing is held."""


class UsersTable(GeneratorTable):
    """See `ClicksSource`."""

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._context = context

    def scan(self, split: Split | None = None) -> Scan:
        """See `Table.scan`."""
        numbers = range(USERS)
        if split is not None and split.parts:
            (part,) = split.parts
            numbers = range(part.offset, part.offset + part.length)
        found = rows.users(numbers)
        return ArrowScan(found.select([name for name in found.column_names if name in self._context.read_columns]))


class DrawnTable:
    """A part of a split is a range of row numbers; sites know how many rows they have, as of Parquet."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._of = (int(context.options["seed"]), context.relation, context.site)

    def scan(self, split: Split | None = None) -> Scan:
        """See `Table.scan`."""
        found = drawntables.rows(*self._of).select(list(self._context.read_columns))
        if split is not None and split.parts:
            (part,) = split.parts
            found = found.slice(part.offset, part.length)
        return ArrowScan(found)

    def splits(self, split_bytes: int) -> Sequence[Split]:
        """See `Table.splits`."""
        parts = [FilePart("", numbers.start, len(numbers)) for numbers in drawntables.splits(*self._of)]
        return [Split((part,), part.length * ROW_BYTES, rows=part.length) for part in parts]


class Connector(GeneratorConnector):
    """See `GeneratorConnector`."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def open_source(self, context: SourceContext) -> Source:
        """See `Connector.open_source`."""
        context.check(GENERATOR, RelationKind.STREAM)
        return ClicksSource(context, self._shape) if context.relation == "clicks" else TapsSource(context, self._shape)

    def open_table(self, context: SourceContext) -> Table:
        """See `Connector.open_table`."""
        context.check(GENERATOR, RelationKind.TABLE)
        return DrawnTable(context) if context.relation in TABLES else UsersTable(context)
