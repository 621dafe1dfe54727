"""Seeds of the random tests: always the same in `make test`, new ones in `make long`, chosen ones by `SELAT_SEED`."""

from __future__ import annotations

import os
from random import Random

VARIABLE = "SELAT_SEED"
GIVEN = int(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
"""The seed of this run; None: every test has a fixed seed of its own."""


def random_of(own: int | str) -> Random:
    """A test's random generator, from the test's own seed and the given one, if any."""
    return Random(own if GIVEN is None else f"{GIVEN} {own}")


def several(few: int, many: int) -> int:
    """Return how many cases a random test draws: few in `make test`, many where a seed is given, as in `make long`."""
    return few if GIVEN is None else many


def header() -> str:
    """A line that says how to draw the same again."""
    return "random tests: fixed seeds" if GIVEN is None else f"random tests: {VARIABLE}={GIVEN} draws the same again"
