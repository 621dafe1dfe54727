"""Options that several connectors take."""

from __future__ import annotations

from datetime import timedelta

from planner.relations.options import Option, parse_duration

NONE = "none"
EARLIEST, LATEST = "earliest", "latest"
TIME_TEXT = "a time as in 2026-01-31T12:00:00Z"


def _parse_rate(text: str) -> float:
    rate = float(text)
    if not 0 <= rate < float("inf"):
        raise ValueError(text)
    return rate


def _parse_max_ahead(text: str) -> timedelta | None:
    return None if text.strip().lower() == NONE else parse_duration(text)


IDLE_TIMEOUT = Option(
    "idle_timeout",
    parse_duration,
    "a duration as in '30 seconds'",
    timedelta(seconds=30),
    shown="`30 seconds`",
    summary="Streams: after so long without a row, others do not wait for this source's watermark. Counted from the "
    "start of its task, and anew after a pause or a restart.",
)
EXPECTED_RATE: Option[float | None] = Option(
    "rows_per_second",
    _parse_rate,
    "a number of at least 0",
    None,
    summary="Streams: what the planner may expect when it estimates rates. Nothing is read by it.",
)
MAX_AHEAD: Option[timedelta | None] = Option(
    "max_ahead",
    _parse_max_ahead,
    "a duration as in '10 minutes', or none",
    timedelta(minutes=10),
    shown="`10 minutes`",
    summary="How far a row's event time may be ahead of the site's clock; `none`: any. May be changed while "
    "queries run.",
    alterable=True,
)
