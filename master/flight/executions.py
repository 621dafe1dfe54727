"""Tells the columns that statements give, and runs them for their rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta

import pyarrow as pa

from contract.arrow_types import arrow_type
from master.base.errors import InvalidRequestError
from master.flight.parts import FlightParts
from master.results.ending import check_finished, give_up
from master.results.fetch import FetchStart
from master.views.outcomes import Done, Explained, Outcome, Rows, SettingChanged
from master.views.queries import QueryView
from planner.relations.catalog import Column
from planner.sql.script import parse_script
from planner.sql.statements import (
    Describe,
    DescribeFunction,
    Explain,
    ExplainAnalyze,
    SelectQuery,
    Show,
    Statement,
)

_LOOKS = (Describe, DescribeFunction, Explain, ExplainAnalyze, Show)
"""Statements that change nothing: they are run to know their columns."""
_TEXT = pa.schema([("result", pa.string())])
_WATCH = timedelta(seconds=1)


class Executions:
    """Runs the texts of clients."""

    def __init__(self, parts: FlightParts) -> None:
        self._parts = parts

    async def schema(self, text: str) -> pa.Schema:
        """Return the columns of what a text gives; a query is planned, and nothing is changed.

        Raises:
            PlannerError, MasterError: as running it would.
        """
        statement = _last(text)
        if isinstance(statement, SelectQuery):
            return _schema_of(await self._parts.statements.columns_of(text))
        if isinstance(statement, _LOOKS):
            return _table_of(await self._outcome(text)).schema
        return _TEXT

    async def columns(self, text: str) -> pa.Schema | None:
        """Return the columns of a statement that has rows; None: it changes something, and only says what it did.

        Raises:
            PlannerError, MasterError: as `schema`.
        """
        return await self.schema(text) if isinstance(_last(text), (SelectQuery, *_LOOKS)) else None

    async def rows(self, text: str, schema: pa.Schema) -> AsyncGenerator[pa.RecordBatch, None]:
        """Run a text, and yield what its last statement gives, in batches of its `schema`.

        Rows of streams come for as long as they are read; a query that is not read to its end is cancelled.

        Raises:
            PlannerError, MasterError: it is refused, or the query fails or is cancelled.
        """
        outcome = await self._outcome(text)
        if not isinstance(_last(text), SelectQuery):
            for batch in _table_of(outcome).to_batches():
                yield batch
            return
        if not isinstance(outcome, QueryView):
            raise InvalidRequestError("the text has no query")
        async with aclosing(self._fetched(outcome.record.id, schema)) as batches:
            async for batch in batches:
                yield batch

    async def update(self, text: str) -> None:
        """Run a text that is no query; an INSERT INTO of tables has ended when this returns.

        Raises:
            PlannerError, MasterError: as `rows`.
        """
        if isinstance(_last(text), SelectQuery):
            raise InvalidRequestError("a SELECT is no update", hint="execute it as a query")
        outcome = await self._outcome(text)
        if not isinstance(outcome, QueryView) or outcome.batch is None:
            return
        async with aclosing(self._parts.watches.query(outcome.record.id, _WATCH)) as views:
            async for _ in views:
                pass
        check_finished(self._parts.queries, outcome.record.id)

    async def _outcome(self, text: str) -> Outcome:
        last: Outcome = Done("")
        async with aclosing(self._parts.statements.run(text)) as outcomes:
            async for _, outcome in outcomes:
                last = outcome
        return last

    async def _fetched(self, query: str, schema: pa.Schema) -> AsyncGenerator[pa.RecordBatch, None]:
        try:
            async with aclosing(self._parts.results.fetch(query, FetchStart(), follow=True)) as epochs:
                async for epoch in epochs:
                    with pa.ipc.open_stream(epoch.arrow_stream) as reader:
                        rows = reader.read_all()
                    for batch in rows.rename_columns(schema.names).cast(schema).to_batches():
                        yield batch
            check_finished(self._parts.queries, query)
        finally:
            give_up(self._parts.queries, self._parts.jobs, query)


def _last(text: str) -> Statement | None:
    statements = parse_script(text)
    return statements[-1] if statements else None


def _schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the Arrow schema of a query's columns. Raises InvalidRequestError for a type that Arrow does not have."""
    fields = []
    for column in columns:
        try:
            fields.append((column.name, arrow_type(column.type)))
        except ValueError as error:
            raise InvalidRequestError(
                f"column {column.name} has the type {column.type}, which has no equal in Arrow",
                hint=f"cast it, as in CAST({column.name} AS STRING)",
            ) from error
    return pa.schema(fields)


def _table_of(outcome: Outcome) -> pa.Table:
    match outcome:
        case Rows():
            columns = [[row[place] for row in outcome.rows] for place in range(len(outcome.columns))]
            schema = pa.schema([(name, pa.string()) for name in outcome.columns])
            return pa.table([pa.array(column, pa.string()) for column in columns], schema=schema)
        case Explained():
            return pa.table({"plan": pa.array(outcome.text.splitlines(), pa.string())})
        case SettingChanged():
            told = f"{outcome.name} = {outcome.value}: it holds for the statements behind it in the same text"
        case QueryView():
            told = f"query {outcome.record.id} is {outcome.record.state.value}"
        case _:
            told = outcome.text
    return pa.table([pa.array([told], pa.string())], schema=_TEXT)
