"""Spark SQL for generated rows: every value is a function of the row number `id`, the seed and the column's name."""

from __future__ import annotations

from collections.abc import Callable

from planner.values.literals import quoted_text
from site_agent.connectors.generator.schedule import MICROS, PICOS, Schedule, Segment


def hash_of(seed: int, column: str, salt: str = "") -> str:
    """64 bits that look random and are the same for the same row in every run."""
    return f"xxhash64({seed}L, {quoted_text(column + salt)}, id)"


def fraction_of(hashed: str) -> str:
    """A double in [0, 1) from 64 bits."""
    return f"(shiftrightunsigned({hashed}, 11) * {2.0**-53!r}D)"


def birth_us(schedule: Schedule, start: int, end: int) -> str:
    """Microseconds since the epoch at which rows [start, end) are born, as BIGINT."""
    return _by_segment(schedule, start, end, _in_segment)


def gap_us(schedule: Schedule, start: int, end: int) -> str:
    """Microseconds from one row to the next, at the rates at which rows [start, end) are born, as BIGINT."""
    return _by_segment(schedule, start, end, lambda segment: f"{PICOS // segment.rate_micro}L")


def _by_segment(schedule: Schedule, start: int, end: int, written: Callable[[Segment], str]) -> str:
    cases = [r for r in schedule.ranges() if r.start < end and (r.end is None or r.end > start)]
    expression = written(cases[-1].segment)
    for case in reversed(cases[:-1]):
        expression = f"CASE WHEN id < {case.end}L THEN {written(case.segment)} ELSE {expression} END"
    return expression


def _in_segment(segment: Segment) -> str:
    # (row * 1e12 - base) / rate, rounded up, in steps that stay below 2^63.
    rate = segment.rate_micro
    first = segment.first_row
    phase, phase_rest = divmod(first * PICOS - segment.base, MICROS)
    micro_rows = f"((id - {first}L) * {MICROS}L + {phase}L)"
    seconds = f"{micro_rows} div {rate}L"
    rest = f"(({micro_rows} % {rate}L) * {MICROS}L + {phase_rest + rate - 1}L) div {rate}L"
    return f"({segment.since_us}L + ({seconds}) * {MICROS}L + ({rest}))"
