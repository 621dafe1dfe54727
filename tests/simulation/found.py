"""Plans that found something, made small by `python -m tests.simulation --shrink SEED`: each is played in every run."""

from __future__ import annotations

from tests.simulation.plan import Full, Kill, Plan

FOUND: dict[str, Plan] = {
    "an agent that was started on a full disk ended": Plan(
        191, sites=("us", "eu"), queries=("windows",), rows=60, faults=(Full(12.0, "us", 6.0), Kill(13.0, "us", 0.5))
    ),
}
"""By what went wrong then."""
