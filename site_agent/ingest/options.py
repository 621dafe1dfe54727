"""Options of the connector `push`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from planner.relations import options as declared
from planner.relations.options import EARLIEST, LATEST
from site_agent.base.options import refused, site_option

__all__ = [
    "EARLIEST",
    "FROM",
    "LATEST",
    "RATE",
    "RETENTION",
    "RETENTION_BYTES",
    "LogLimits",
    "check_options",
    "limits_of",
]

_SEGMENTS = 8
_MIN_SEGMENT_BYTES = 64 * 1024
_MAX_SEGMENT_BYTES = 64 * 1024 * 1024

RETENTION = site_option(declared.RETENTION)
RETENTION_BYTES = site_option(declared.RETENTION_BYTES)
FROM = site_option(declared.FROM)
RATE = site_option(declared.RATE)


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
    with refused():
        declared.check_push(options)


def limits_of(options: Mapping[str, str]) -> LogLimits:
    """Raises ConnectorError when an option is wrong."""
    check_options(options)
    retention_bytes = RETENTION_BYTES.of(options)
    segment_bytes = max(_MIN_SEGMENT_BYTES, min(_MAX_SEGMENT_BYTES, retention_bytes // _SEGMENTS))
    return LogLimits(RETENTION.of(options), retention_bytes, segment_bytes)
