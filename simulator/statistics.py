"""Means over rounds, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12)  # fmt: skip
"""Student's t for a two-sided 95 % interval, by degrees of freedom from 1 on."""
_T_95_MANY = 2.05
"""For more rounds; a little wide from thirty on."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Of independent rounds, with half the width of its 95 % confidence interval; infinite for a single round."""

    value: float
    half_width: float

    def text(self, digits: int = 1, *, scale: float = 1.0) -> str:
        """As in `12.3 ± 0.4`."""
        return f"{self.value * scale:.{digits}f} ± {self.half_width * scale:.{digits}f}"

    def change_text(self) -> str:
        """Of a share by which something is larger, as in `+12.3 ± 0.4 %`."""
        return f"{100 * self.value:+.1f} ± {100 * self.half_width:.1f} %"


def mean(values: Sequence[float]) -> Mean:
    """Raises ValueError when there is no value."""
    if not values:
        raise ValueError("a mean of nothing")
    count = len(values)
    middle = sum(values) / count
    if count == 1:
        return Mean(middle, math.inf)
    variance = sum((value - middle) ** 2 for value in values) / (count - 1)
    t = _T_95[count - 2] if count - 2 < len(_T_95) else _T_95_MANY
    return Mean(middle, t * math.sqrt(variance / count))


def paired_change(values: Sequence[float], base: Sequence[float]) -> Mean:
    """How much larger the values are than those of the same rounds in `base`, as a share of the mean of `base`.

    The interval is that of the differences: what makes one round harder than another for both does not widen it.

    Raises ValueError when there is no value, or not one in `base` for each.
    """
    found = mean([value - other for value, other in zip(values, base, strict=True)])
    middle = mean(base).value
    return Mean(found.value / middle, found.half_width / middle)
