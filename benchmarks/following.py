"""Queries of `benchmarks.combine`: what they give, and when."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

import selat

WAYS = {"written": "off", "combined": "on"}
"""The ways to send, and what each sets `combine` to."""


@dataclass(slots=True)
class Running:
    """A query, and when each window's first row came."""

    query: selat.Query
    arrived_s: dict[datetime, float] = field(default_factory=dict)
    rows: list[pa.RecordBatch] = field(default_factory=list)
    thread: threading.Thread | None = None

    def end(self) -> None:
        """Cancel the query; its last results are not waited for longer than a moment."""
        self.query.cancel()
        if self.thread is not None:
            self.thread.join(10)

    def read(self) -> None:
        """Until the query is cancelled."""
        with self.query.results() as results:
            for batch in results:
                now_s = time.time()
                for end in batch.batch.column("e").unique().to_pylist():
                    self.arrived_s.setdefault(end, now_s)
                self.rows.append(batch.batch)

    def table(self) -> pa.Table:
        """All rows so far."""
        return pa.Table.from_batches(list(self.rows))


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one way to send."""

    sent_bytes: int
    windows: int
    delays_s: tuple[float, ...]


def follow(client: selat.Client, sql: str, *, merge_at: str) -> Running:
    """Submit a query and read its results.

    Raises:
        RuntimeError: its merge is at another site than the one over whose links bytes are counted.
    """
    query = client.sql(sql)
    assert isinstance(query, selat.Query)
    sites = {task.site for task in query.info().tasks if task.stage_id.startswith("m")}
    if sites != {merge_at}:
        raise RuntimeError(f"the merge of {query.id} is at {', '.join(sorted(sites))}, not at {merge_at}: {sql}")
    running = Running(query)
    running.thread = threading.Thread(target=running.read, daemon=True)
    running.thread.start()
    return running


def sends(task: selat.TaskStatus, way: str) -> bool:
    """Whether a task's output crosses links: the merge is at the gateway."""
    return task.stage_id == ("c1" if way == "combined" else "s1")
