"""The sections say what was found, and misses as misses."""

from __future__ import annotations

from planner.values.adapting import Order
from simulator.nako import figures
from simulator.nako.many import Outcome, run
from simulator.nako.scenes import SOURCE, stepped


def test_a_miss_is_said_as_a_miss() -> None:
    assert figures.verdict(reached=True, missed="it is 3") == "Reached."
    assert figures.verdict(reached=False, missed="it is 3") == "**Missed**: it is 3."


def test_verdicts_on_orders_are_by_the_numbers() -> None:
    found: list[Outcome] = [run(stepped(0, SOURCE, shadow=False))]
    told = figures.step_verdicts({("stop", Order.NAKO): found, ("stop", Order.SLO): found})
    assert "by either order. Reached." in told
    assert "than by SLO. **Missed**: 1.00 times" in told


def test_all_that_is_left_open_has_a_name() -> None:
    assert {"as above", "alpha 0", "alpha 1", "none is left alone", "one action in a round"} < figures.VARIANTS.keys()
