"""Connections of PEP 249."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import selat.client as client
from selat.dbapi.cursor import Cursor
from selat.dbapi.errors import InterfaceError, NotSupportedError, translated


def connect(address: str | None = None, **options: Any) -> Connection:
    """A connection to the master at that address; options are those of `selat.connect`.

    Raises:
        OperationalError: no master answers.
        ProgrammingError: it refuses the token, or an option cannot be right.
    """
    with translated():
        return Connection(client.connect(address, **options))


class Connection:
    """Makes cursors. Each statement is done, or not, by itself: there are no transactions."""

    def __init__(self, inner: client.Client) -> None:
        self._client: client.Client | None = inner
        self._cursors: list[Cursor] = []

    @property
    def client(self) -> client.Client:
        """Return the client that sends the statements. Raises InterfaceError when the connection is closed."""
        if self._client is None:
            raise InterfaceError("the connection is closed")
        return self._client

    def cursor(self) -> Cursor:
        """A new cursor. Raises InterfaceError when the connection is closed."""
        found = Cursor(self.client)
        # Pools keep connections for long, and close each cursor.
        self._cursors = [*(cursor for cursor in self._cursors if not cursor.closed), found]
        return found

    def commit(self) -> None:
        """Does nothing: what is done is durable. Raises InterfaceError when the connection is closed."""
        _ = self.client

    def rollback(self) -> None:
        """Raises NotSupportedError: there are no transactions."""
        raise NotSupportedError("there are no transactions: each statement is done, or not, by itself")

    def close(self) -> None:
        """Closes the connection and its cursors. Queries of SELECT that are not read to their end are cancelled."""
        for cursor in self._cursors:
            cursor.close()
        self._cursors.clear()
        if self._client is not None:
            self._client.close()
            self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
