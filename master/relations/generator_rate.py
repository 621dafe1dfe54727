"""Changing the rate of a generator that runs: the change is written into its options as of an instant, so that every
task that reads the binding, now or after a restart, finds the same rows at the same offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from contract.times import to_us
from planner.relations.catalog import Relation
from planner.values.errors import InvalidDefinitionError

RATE = "rows_per_second"
SCHEDULE = "rate_schedule"
DEFAULT_RATE = "10"
"""Rows per second of a generator binding that names none."""

MAX_RATE = 5_000_000
"""What the generator can do; beyond it its arithmetic would overflow."""

LEAD = timedelta(seconds=1)
"""A change takes effect this long after it was accepted, so that it has reached the sites by then."""


def with_rate_change(
    relation: Relation, options: Mapping[str, str], *, changes: Mapping[str, str], now: datetime
) -> Mapping[str, str]:
    """The options with the changes merged in, and a generator's change of rate appended to its schedule.

    The schedule is a JSON list of [microseconds since the epoch, rows per second].

    Raises:
        InvalidDefinitionError: the rate is not a number, or negative.
    """
    merged = {**options, **changes}
    rate = changes.get(RATE)
    if options.get("connector") != "generator" or rate is None or SCHEDULE in changes:
        return merged
    schedule = _schedule(relation, options, now)
    # A generator that starts later changes when it starts: instants never go back.
    since_us = max(to_us(now + LEAD), int(schedule[-1][0]))
    schedule.append([since_us, _number(relation, rate)])
    return {**merged, SCHEDULE: json.dumps(schedule)}


def _schedule(relation: Relation, options: Mapping[str, str], now: datetime) -> list[list[float]]:
    if SCHEDULE in options:
        return _stored_schedule(relation, options[SCHEDULE])
    start_us = _start_us(relation, options) or to_us(relation.created_at or now)
    return [[start_us, _number(relation, options.get(RATE, DEFAULT_RATE))]]


def _stored_schedule(relation: Relation, text: str) -> list[list[float]]:
    """Users may write one too, so it is looked at."""
    try:
        schedule = [[int(since_us), rate] for since_us, rate in json.loads(text)]
    except (ValueError, TypeError):
        schedule = []
    if not schedule:
        raise InvalidDefinitionError(
            f"{relation.name}: {SCHEDULE} is no list of [since_us, rows_per_second]",
            found=text,
            hint="as in [[1767225600000000, 100]]",
        )
    return schedule


def _start_us(relation: Relation, options: Mapping[str, str]) -> int | None:
    text = options.get("start")
    if not text:
        return None
    try:
        start = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidDefinitionError(
            f"{relation.name}: start {text!r} is not a time", hint="as in 2026-01-31T12:00:00Z"
        ) from None
    return to_us(start if start.tzinfo else start.replace(tzinfo=UTC))


def _number(relation: Relation, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= MAX_RATE:
        raise InvalidDefinitionError(
            f"{relation.name}: {RATE} {text!r} is not a rate", found=text, hint=f"a number from 0 to {MAX_RATE}"
        )
    return int(rate) if rate == int(rate) else rate
