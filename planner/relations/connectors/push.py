"""`push`: rows that clients send to the site's agent."""

from __future__ import annotations

from datetime import timedelta

from planner.relations.catalog import RelationKind
from planner.relations.connectors.common import EARLIEST, EXPECTED_RATE, IDLE_TIMEOUT, LATEST, MAX_AHEAD
from planner.relations.connectors.spec import ConnectorSpec, Traits
from planner.relations.options import Option, one_of, parse_duration, parse_positive_int

RETENTION_BYTES = Option(
    "retention_bytes",
    parse_positive_int,
    "a whole number of bytes",
    1024 * 1024 * 1024,
    shown="`1073741824`",
    summary="How large the log may get. May be changed while rows come.",
    alterable=True,
)
RETENTION = Option(
    "retention",
    parse_duration,
    "a duration as in '1 hour'",
    timedelta(days=7),
    shown="`7 days`",
    summary="How long rows are kept that every query has read. May be changed while rows come.",
    alterable=True,
)
FROM = Option(
    "from",
    one_of(EARLIEST, LATEST),
    "earliest or latest",
    EARLIEST,
    shown=f"`{EARLIEST}`",
    summary="Where a new query begins: `earliest`, at the oldest row that is kept, or `latest`, after the newest one.",
)

PUSH = ConnectorSpec(
    name="push",
    roles=frozenset({RelationKind.STREAM}),
    options=(RETENTION_BYTES, RETENTION, MAX_AHEAD, FROM, EXPECTED_RATE, IDLE_TIMEOUT),
    traits=Traits(has_log=True, whole_rows=True, arrives=True, rate=EXPECTED_RATE),
)
