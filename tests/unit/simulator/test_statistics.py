from __future__ import annotations

import math

import pytest

from simulator.statistics import mean


def test_a_mean_with_its_interval() -> None:
    found = mean([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert found.half_width == pytest.approx(4.30 / math.sqrt(3))
    assert found.text(1) == "2.0 ± 2.5"


def test_one_round_says_nothing_about_others() -> None:
    assert mean([5.0]).half_width == math.inf


def test_no_round_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing"):
        mean([])
