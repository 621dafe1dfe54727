"""Logs of a small schema, for the tests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from site_agent.channels.codec import encode
from site_agent.ingest import Acknowledged, Push
from site_agent.ingest.files import LogFiles
from site_agent.ingest.log import Outcome, PushLog
from site_agent.ingest.options import LogLimits
from tests.unit.site_agent.fakes import VirtualClock

SCHEMA = pa.schema([("v", pa.int64())])
SMALL = LogLimits(segment_bytes=400)
"""A few records fill a segment."""


def open_log(
    directory: Path, *, limits: LogLimits = SMALL, clock: VirtualClock | None = None, files: LogFiles | None = None
) -> PushLog:
    return PushLog(directory, SCHEMA, limits=limits, clock=clock or VirtualClock(), files=files)


def push(producer: str, sequence: int, values: list[int] | None = None) -> Push:
    """By default a batch of one row that tells what it is."""
    rows = [sequence] if values is None else values
    return Push(producer, sequence, encode(pa.table({"v": rows}, schema=SCHEMA)) if rows else None)


def values(log: PushLog) -> list[int]:
    """All rows that are kept."""
    rows = log.kept.read(log.kept.first_record, log.kept.next_record, ["v"]).column("v").to_pylist()
    return [int(v) for v in rows]


def stored(outcomes: list[Outcome]) -> list[tuple[int, bool]]:
    """Sequences that are acknowledged, and whether each was known."""
    return [(o.sequence, o.duplicate) for o in outcomes if isinstance(o, Acknowledged)]
