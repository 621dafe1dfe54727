"""Writes commits, each in one transaction with its number.

After a crash Selat writes the commit that was under way again, with the same number and the same rows. The transaction
looks whether the number is there, so its rows are in the table once.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import pyarrow as pa

from site_agent.connectors.sinks import EncodedFile, RollPolicy, SinkCommit, SinkError, SinkWriter, check_sink

from . import PATH, ROLL_INTERVAL, SPEC, TABLE

COMMIT_BYTES = 16 * 1024 * 1024
COMMITS = "CREATE TABLE IF NOT EXISTS selat_commits (query TEXT, number INTEGER, PRIMARY KEY (query, number))"
WAIT_S = 10.0
PASSING = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}
)
"""Codes of errors that another attempt may not meet."""
PRIMARY_CODE = 0xFF


class SqliteSink:
    """Opens databases."""

    name = SPEC.name
    fixed_options = SPEC.fixed

    def policy(self, options: Mapping[str, str]) -> RollPolicy:
        """When collected rows are committed."""
        check_sink(SPEC, options)
        return RollPolicy(COMMIT_BYTES, ROLL_INTERVAL.of(options).total_seconds())

    def open(self, options: Mapping[str, str], query_id: str) -> SinkWriter:
        """The writer of one query."""
        check_sink(SPEC, options)
        return SqliteWriter(PATH.of(options), TABLE.of(options))


class SqliteWriter:
    """Writes into one table. Several queries may, each with numbers of its own."""

    def __init__(self, path: str, table: str) -> None:
        self._path = path
        self._table = table

    def prepare(self) -> None:
        """Nothing is left half written: SQLite takes back what a crash interrupted."""

    def encode(self, commit: SinkCommit, rows: pa.Table) -> Sequence[EncodedFile]:
        """One part, which is not a file here: the rows as Arrow."""
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, rows.schema) as stream:
            stream.write_table(rows)
        return [EncodedFile((), rows.num_rows, out.getvalue().to_pybytes())]

    def write(self, commit: SinkCommit, files: Sequence[EncodedFile]) -> int:
        """The rows and the commit's number, or nothing if the number is there."""
        with _transaction(self._path) as database:
            database.execute(COMMITS)
            known = "SELECT 1 FROM selat_commits WHERE query = ? AND number = ?"
            if database.execute(known, (commit.query_id, commit.number)).fetchone() is None:
                database.execute("INSERT INTO selat_commits VALUES (?, ?)", (commit.query_id, commit.number))
                for file in files:
                    self._insert(database, pa.ipc.open_stream(file.data).read_all())
        return sum(len(file.data) for file in files)

    def _insert(self, database: sqlite3.Connection, rows: pa.Table) -> None:
        names = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in rows.column_names)
        database.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({names})")
        marks = ", ".join("?" * rows.num_columns)
        values = zip(*([_plain(value) for value in column.to_pylist()] for column in rows.columns), strict=True)
        database.executemany(f"INSERT INTO {self._table} ({names}) VALUES ({marks})", values)

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def _transaction(path: str) -> Iterator[sqlite3.Connection]:
    """All or nothing. Raises OSError where another attempt may succeed, else SinkError."""
    try:
        with closing(sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)) as database:
            # Closing a database takes back what was not committed.
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")
    except sqlite3.Error as error:
        if error.sqlite_errorcode & PRIMARY_CODE in PASSING:
            raise OSError(errno.EIO, f"{path}: {error}") from error
        raise SinkError(f"{path}: {error}", hint="does the table have the columns of the query?") from error


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int | float | str | bytes) else str(value)
