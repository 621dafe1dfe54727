"""Cursors of PEP 249: one statement at a time, and its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from types import TracebackType
from typing import Any, Self

from contract.arrow_types import arrow_schema
from selat.client import Client, Query, Results
from selat.dbapi.binding import bound
from selat.dbapi.errors import InterfaceError, OperationalError, ProgrammingError, translated
from selat.dbapi.types import type_name
from selat.errors import SelatError
from selat.values import Explanation, QueryInfo, QueryState, Rows

Row = tuple[Any, ...]
Description = tuple[tuple[str, str | None, None, None, None, None, None], ...]


def _check_done(info: QueryInfo) -> None:
    """Raises OperationalError unless the query has finished."""
    if info.state is not QueryState.FINISHED:
        raise OperationalError(f"query {info.id} is {info.state.value}: {info.reason}")


class Cursor:
    """Runs statements, and hands out the rows of the last one."""

    def __init__(self, client: Client) -> None:
        self._client: Client | None = client
        self._query: Query | None = None
        self._results: Results | None = None
        self._rows: Iterator[Row] | None = None
        self.description: Description | None = None
        """A tuple for each column of the rows: its name, and Arrow's name of its type; None: there are no rows."""
        self.arraysize = 1
        """It is how many rows `fetchmany` returns by default."""

    @property
    def rowcount(self) -> int:
        """-1: how many rows there are is not known before they are read."""
        return -1

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._client is None

    @property
    def query(self) -> Query | None:
        """The query of the last SELECT or INSERT; None: it was something else."""
        return self._query

    def execute(self, operation: str, parameters: Sequence[object] = ()) -> Self:
        """Runs one statement; a SELECT begins, and an INSERT INTO of tables has ended when this returns.

        Raises:
            ProgrammingError: it is refused, or the values do not fit its question marks.
            DataError: a value has no literal.
            OperationalError: the master cannot be reached, or the query failed.
        """
        client = self._open()
        self._end()
        text = bound(operation, parameters) if parameters else operation
        with translated():
            outcome = client.sql(text)
            if isinstance(outcome, Query):
                self._begin(outcome)
            elif isinstance(outcome, Rows):
                self._small(outcome.columns, outcome.rows)
            elif isinstance(outcome, Explanation):
                self._small(("plan",), [(line,) for line in str(outcome).splitlines()])
        return self

    def executemany(self, operation: str, parameters: Sequence[Sequence[object]]) -> Self:
        """Runs the statement with each of the values in turn. Raises as `execute` does."""
        for values in parameters:
            self.execute(operation, values)
        return self

    def fetchone(self) -> Row | None:
        """The next row; None: there are no more. Raises as `execute` does, and when the last statement has none."""
        with translated():
            return next(self._reading(), None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next `size` rows, or as many as are left; raises as `fetchone` does."""
        with translated():
            return list(islice(self._reading(), self.arraysize if size is None else size))

    def fetchall(self) -> list[Row]:
        """All rows that are left; raises as `fetchone` does. Of streams they have no end."""
        with translated():
            return list(self._reading())

    def close(self) -> None:
        """Ends the reading of rows. A SELECT that is not read to its end is cancelled."""
        self._end()
        self._client = None

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing: sizes need not be known."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing: sizes need not be known."""

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchone, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> Client:
        if self._client is None:
            raise InterfaceError("the cursor is closed")
        return self._client

    def _reading(self) -> Iterator[Row]:
        self._open()
        if self._rows is None:
            raise ProgrammingError("the last statement has no rows")
        return self._rows

    def _begin(self, query: Query) -> None:
        self._query = query
        info = query.last
        if info.sink:
            if info.batch is not None:
                _check_done(query.wait())
            return
        self._results = query.results()
        schema = arrow_schema(info.columns)
        self.description = tuple((field.name, type_name(field.type), None, None, None, None, None) for field in schema)
        self._rows = chain.from_iterable(
            zip(*(column.to_pylist() for column in batch.batch.columns), strict=True) for batch in self._results
        )

    def _small(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self.description = tuple((name, "string", None, None, None, None, None) for name in columns)
        self._rows = iter(rows)

    def _end(self) -> None:
        """Let go of the statement before; a query of rows that nobody will read is cancelled."""
        results, query = self._results, self._query
        self._query = self._results = self._rows = self.description = None
        if results is None or query is None:
            return
        results.close()
        if results.info.state in (QueryState.FINISHED, QueryState.FAILED, QueryState.CANCELLED):
            return
        try:
            query.cancel()
        except SelatError:
            # It has ended meanwhile, or the master is away.
            return
