"""Rows that clients push: taken over gRPC, logged on the site's disk, and read from there by source tasks.

    IngestService.Push -> RowFormat (schema rules) -> Intake (group commit, waits for room) -> PushLog -> segment files
                                                                                               ^
    connectors.push: where a query's source stands, and the rows from there on ---------------+

Of a log, `kept` has the records that are there, `tail` writes and removes them, `room` says how much may stay.

A **record** is one pushed batch; records are numbered from 0 for each stream and site. A **segment** is a file of
consecutive records. A batch is acknowledged when its record is synced to disk, and known again by its producer and
sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from site_agent.channels.codec import EncodedRows
from site_agent.engine import Field

MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Largest Arrow IPC stream of one push."""
MAX_BATCH_RAW_BYTES = 64 * 1024 * 1024
"""Largest size of its rows in memory."""
MAX_BATCH_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class PushedStream:
    """A stream that clients push to at the site."""

    name: str
    columns: tuple[Field, ...]
    options: Mapping[str, str]
    created_at: datetime
    readers: tuple[str, ...] = field(default=(), compare=False)
    """The source tasks that read it here."""
    by_arrival: bool = False
    """The event time of its rows is when they arrive."""


@dataclass(frozen=True, slots=True)
class StreamLog:
    """How much the log of one stream holds."""

    stream: str
    size_bytes: int = 0
    rows: int = 0
    batches: int = 0
    rows_stored: int = 0
    """Since the stream was created; the log still holds `rows` of them."""
    limit_bytes: int = 0
    ended: bool = False
    reason: str = ""
    """Why clients cannot push to it; empty when they can."""


@dataclass(frozen=True, slots=True)
class Push:
    """One batch on its way into the log."""

    producer: str
    sequence: int
    rows: EncodedRows | None
    """In the stream's schema; None when there are none."""

    @property
    def row_count(self) -> int:
        return self.rows.rows if self.rows else 0

    @property
    def payload(self) -> bytes:
        return self.rows.payload if self.rows else b""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The batch is durable."""

    sequence: int
    rows: int
    """Rows that this push stored; 0 when the batch was stored before."""
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Nothing was stored: the log is full of rows that some reader still needs."""

    reason: str
