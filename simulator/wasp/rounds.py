"""The same scene in several drawn worlds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from simulator.wasp.run import Outcome, Scene, run


def outcomes(scene: Scene, rounds: int) -> list[Outcome]:
    """Return one outcome for each seed."""
    return [run(scene, seed) for seed in range(rounds)]


def mid(found: Sequence[Outcome], value: Callable[[Outcome], float]) -> float:
    """Return the median of a figure."""
    return median(map(value, found))
