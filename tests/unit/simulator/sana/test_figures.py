from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.sana.figures import SANA, change, over, runs, throughput
from simulator.sana.queries import QUERIES
from simulator.sana.run import Outcome, System
from simulator.sana.world import WorldSettings
from simulator.tables import percent, table

FAST = WorldSettings(bandwidth=100.0)


def test_changes_are_those_of_each_round() -> None:
    found = runs(FAST, SANA, QUERIES[:1], 2)
    assert len(found) == 2
    assert runs(FAST, SANA, QUERIES[:1], 2) is found

    def doubled(outcome: Outcome) -> Outcome:
        return replace(outcome, queries=tuple(replace(q, rows_per_s=2 * q.rows_per_s) for q in outcome.queries))

    more = change([doubled(outcome) for outcome in found], found, throughput)
    assert (more.value, more.half_width) == pytest.approx((1.0, 0.0))
    assert percent(more) == "+100 % ± 0"
    assert over(found, throughput).half_width > 0


def test_systems_are_told_apart() -> None:
    other = System("Sana", SANA.sharing, at_birthplaces=True)
    assert runs(FAST, other, QUERIES[:1], 1) != runs(FAST, SANA, QUERIES[:1], 1)


def test_a_table() -> None:
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
