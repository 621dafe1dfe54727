"""Options of the connector `push`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from site_agent.connectors.options import (
    COMMON_OPTIONS,
    IDLE_TIMEOUT,
    Checked,
    Option,
    one_of,
    parse_duration,
    parse_positive_int,
    refuse_unknown,
)

EARLIEST, LATEST = "earliest", "latest"

_SEGMENTS = 8
_MIN_SEGMENT_BYTES = 64 * 1024
_MAX_SEGMENT_BYTES = 64 * 1024 * 1024


def _parse_optional_rate(text: str) -> float | None:
    rate = float(text)
    if not 0 <= rate < float("inf"):
        raise ValueError(text)
    return rate


RETENTION = Option("retention", parse_duration, "a duration as in '1 hour'", timedelta(days=7))
RETENTION_BYTES = Option("retention_bytes", parse_positive_int, "a whole number of bytes", 1024 * 1024 * 1024)
FROM = Option("from", one_of(EARLIEST, LATEST), "earliest or latest", EARLIEST)
RATE = Option("rows_per_second", _parse_optional_rate, "a number of at least 0", None)
_OPTIONS: tuple[Checked, ...] = (RETENTION, RETENTION_BYTES, FROM, RATE, IDLE_TIMEOUT)


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much a push log keeps."""

    retention: timedelta = RETENTION.default
    """What every reader has passed goes when it is older than this."""
    retention_bytes: int = RETENTION_BYTES.default
    """Beyond this, what every reader has passed goes, oldest first; where there is nothing of it, pushes wait."""

    segment_bytes: int = _MAX_SEGMENT_BYTES
    """A segment that is larger gets no more records. Only whole segments can go, so a log has some."""


def check_options(options: Mapping[str, str]) -> None:
    """Raises ConnectorError naming the option that is unknown or wrong."""
    refuse_unknown(options, (*COMMON_OPTIONS, *(o.name for o in _OPTIONS)))
    for option in _OPTIONS:
        option.of(options)


def limits_of(options: Mapping[str, str]) -> LogLimits:
    """Raises ConnectorError when an option is wrong."""
    check_options(options)
    retention_bytes = RETENTION_BYTES.of(options)
    segment_bytes = max(_MIN_SEGMENT_BYTES, min(_MAX_SEGMENT_BYTES, retention_bytes // _SEGMENTS))
    return LogLimits(RETENTION.of(options), retention_bytes, segment_bytes)
