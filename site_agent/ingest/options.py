"""The limits of a push log, from the options of the connector `push`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from planner.relations.connectors.push import RETENTION, RETENTION_BYTES
from site_agent.base.options import refused

_SEGMENTS = 8
_MIN_SEGMENT_BYTES = 64 * 1024
_MAX_SEGMENT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much a push log may hold."""

    retention: timedelta = RETENTION.default
    """Records that every reader has passed are removed when they are older than this."""
    retention_bytes: int = RETENTION_BYTES.default
    """Beyond this size, records that every reader has passed are removed, oldest first; where there are none, pushes
    wait."""

    segment_bytes: int = _MAX_SEGMENT_BYTES
    """A larger segment takes no more records. Only whole segments are removed, so a log has several."""


def limits_of(options: Mapping[str, str]) -> LogLimits:
    """The limits. Raises ConnectorError when an option is invalid."""
    with refused():
        retention, retention_bytes = RETENTION.of(options), RETENTION_BYTES.of(options)
    segment_bytes = max(_MIN_SEGMENT_BYTES, min(_MAX_SEGMENT_BYTES, retention_bytes // _SEGMENTS))
    return LogLimits(retention, retention_bytes, segment_bytes)
