from __future__ import annotations

import pytest

from planner.functions.sketches import MAX_K, MAX_LG_K, MIN_LG_K, hll_lg_k, kll_k


@pytest.mark.parametrize(("deviation", "lg_k"), [("", 12), ("0.39", MIN_LG_K), ("0.05", 9), ("0.0000001", MAX_LG_K)])
def test_registers_of_a_deviation(deviation: str, lg_k: int) -> None:
    assert hll_lg_k(*([deviation] if deviation else [])) == lg_k
    if MIN_LG_K < lg_k < MAX_LG_K and deviation:
        assert 1.04 / 2 ** (lg_k / 2) <= float(deviation) < 1.04 / 2 ** ((lg_k - 1) / 2)


@pytest.mark.parametrize(("accuracy", "least"), [("", 200), ("1", 1), ("100", 100), ("10000", 10_000)])
def test_k_of_an_accuracy(accuracy: str, least: int) -> None:
    k = kll_k(*([accuracy] if accuracy else []))
    assert 2.296 / k**0.9723 <= 1 / least


def test_k_has_an_end() -> None:
    assert kll_k("1000000000") == MAX_K
