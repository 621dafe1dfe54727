"""Seeds of the random tests: always the same in `make test`, new ones in `make long`, chosen ones by `SELAT_SEED`."""

from __future__ import annotations

import os
from random import Random

VARIABLE = "SELAT_SEED"
GIVEN = int(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
"""The seed of this run; None: every test has its fixed one."""


def random_of(own: int | str) -> Random:
    """A test's generator, by a seed of the test's own, and by the one that was given, if any."""
    return Random(own if GIVEN is None else f"{GIVEN} {own}")


def header() -> str:
    """How to draw the same again."""
    return "random tests: fixed seeds" if GIVEN is None else f"random tests: {VARIABLE}={GIVEN} draws the same again"
