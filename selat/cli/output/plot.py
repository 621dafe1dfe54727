"""A plot in the terminal: one line of bars per series, drawn with block characters."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = " ▁▂▃▄▅▆▇█"


def columns_of(points: Sequence[tuple[float, float]], begin: float, end: float, width: int) -> list[float | None]:
    """The mean of the points in each of `width` equal stretches of time; None where there are none.

    Args:
        points: (time, value).
    """
    sums, counts = [0.0] * width, [0] * width
    span = max(end - begin, 1e-9)
    for at, value in points:
        index = min(width - 1, max(0, int((at - begin) / span * width)))
        sums[index] += value
        counts[index] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def carried(columns: Sequence[float | None]) -> list[float | None]:
    """The last value stands until the next one comes."""
    held: float | None = None
    filled = []
    for value in columns:
        held = value if value is not None else held
        filled.append(held)
    return filled


def bars(columns: Sequence[float | None], most: float, height: int) -> list[str]:
    """Lines of a bar chart, the top one first; each line has eight steps."""
    steps = len(_BARS) - 1
    levels = [0 if value is None or most <= 0 else round(min(1.0, value / most) * height * steps) for value in columns]
    return [
        "".join(_BARS[min(steps, max(0, level - row * steps))] for level in levels).rstrip()
        for row in reversed(range(height))
    ]
