"""Plans that found something, made small by `python -m tests.simulation --shrink SEED`: each is played in every run."""

from __future__ import annotations

from tests.simulation.plan import Full, Kill, Plan, Silence

FOUND: dict[str, Plan] = {
    "an agent that was started on a full disk ended": Plan(
        191, sites=("us", "eu"), queries=("windows",), rows=60, faults=(Full(12.0, "us", 6.0), Kill(13.0, "us", 0.5))
    ),
    "a query failed whose assignment did not reach a site that other sites reached": Plan(
        1, sites=("us", "eu"), queries=("windows",), rows=60, faults=(Silence(0.5, "master", "eu", 90.0),)
    ),
}
"""By what went wrong then."""
