"""Clients that follow the results of a query while a test goes on."""

from __future__ import annotations

import threading

import pyarrow as pa

import selat


class Reader(threading.Thread):
    """A client that follows a query from its beginning, and remembers its place after each batch."""

    def __init__(self, address: str, query: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._query = query
        self.batches: list[pa.RecordBatch] = []
        self.cursors: list[selat.Cursor] = []
        self.failed: Exception | None = None

    def run(self) -> None:
        try:
            with selat.connect(self._address) as client, client.query(self._query).results() as results:
                for batch in results:
                    self.batches.append(batch.batch)
                    self.cursors.append(batch.cursor)
        except Exception as error:  # noqa: BLE001 - the test tells it
            self.failed = error

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches)
