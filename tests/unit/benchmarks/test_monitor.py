from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.monitor import Cost, Findings, offs, report, worst
from benchmarks.monitor_scene import LINKS, SITES, Pair, Reading, off, payload_bytes_per_s
from evidence.criteria import Finding

SLOW: Pair = ("asia", "eu")


def reading(factor: float = 1.0, others: Mapping[Pair, float] | None = None) -> Reading:
    truth = {pair: payload_bytes_per_s(mbit) * factor for pair, (mbit, _) in LINKS.items()}
    return Reading(0.0, truth | dict(others or {}), dict.fromkeys(LINKS, 0.0))


def findings(idle: list[Reading], noticed_s: float | None = 8.0) -> Findings:
    seconds = dict.fromkeys(LINKS, 7.0) | {SLOW: noticed_s}
    tenth = {pair: int(mbit * 125e3) for pair, (mbit, _) in LINKS.items()}
    good = (reading(),)
    looks = dict.fromkeys(LINKS, good)
    cost = Cost(tenth, tenth, 100.0)
    every = dict.fromkeys(LINKS, idle)
    return Findings(12.0, every, looks, looks, looks, cost, seconds, seconds, seconds)


def test_every_ordered_pair_has_a_rate_of_its_own() -> None:
    assert set(LINKS) == {(a, b) for a in SITES for b in SITES if a != b}
    rates = [mbit for mbit, _ in LINKS.values()]
    assert (min(rates), max(rates)) == (5, 200)


def test_an_estimate_is_compared_with_the_payload() -> None:
    assert payload_bytes_per_s(20) * 8 == pytest.approx(19.13e6, rel=0.001)
    assert off(110.0, 100.0) == pytest.approx(0.1)
    assert offs([reading(), reading(0.8)], SLOW) == pytest.approx([0.0, -0.2])
    assert worst([0.1, -0.2, 0.15]) == -0.2


def test_cost_is_of_the_wire_with_a_full_probe_now_and_then() -> None:
    """A second of the link in 100, and one more every ten minutes."""
    cost = findings([reading()]).cost
    assert cost.idle_share(SLOW) == pytest.approx(0.01)
    assert cost.share(SLOW) == pytest.approx(0.01 + 1 / 600)


def test_figures_of_the_criteria() -> None:
    found = findings([reading(), reading(1.1)])
    text = "\n".join(report(found, "tun"))
    assert "Backend `tun`" in text
    assert "| asia->eu, 5 Mbit/s, 90 ms | 4.78 | 5.02 | +10.0% |" in text
    assert "at 100.0% of" in text
    assert "| 1.17% |" in text
    assert found.criteria == {"estimate": pytest.approx(10), "noticed": 8.0, "cost": pytest.approx(100 * 7 / 600)}


def test_a_link_that_was_not_noticed_leaves_no_figure() -> None:
    found = findings([reading(), reading(others={SLOW: 1.0})], noticed_s=None)
    text = "\n".join(report(found, "tun"))
    assert "| 2.39 | -100.0% |" in text
    assert "at 95.8% of" in text
    assert "not in 60 s" in text
    assert found.criteria["noticed"] == Finding(None, "2 not in 60 s")
