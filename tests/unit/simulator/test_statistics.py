from __future__ import annotations

import math

import pytest

from simulator.statistics import mean, paired_change


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


def test_what_all_rounds_have_in_common_does_not_widen_a_change() -> None:
    base = [10.0, 100.0, 1000.0]
    found = paired_change([value - 37.0 for value in base], base)
    assert found.value == pytest.approx(-0.1)
    assert found.half_width == pytest.approx(0.0)
    assert paired_change([2.0, 4.0], [1.0, 1.0]).change_text() == "+200.0 ± 1271.0 %"


def test_rounds_are_compared_with_the_same_rounds() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_change([1.0, 2.0], [1.0])
