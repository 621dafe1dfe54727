"""DS2's formula, by the worked examples of its source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.adapt.scale import TrueRates, is_undivided, largest_part, scaled, tasks_for
from planner.values.names import BINS


def rates(taken: float, given: float, tasks: int = 1) -> TrueRates:
    return TrueRates(taken, given, tasks)


def test_a_throttled_source_hides_nothing() -> None:
    first, second = TrueRates.of([(10, 100, 1.0)]), TrueRates.of([(100, 0, 0.5)])
    assert first is not None
    assert second is not None
    assert (second.rows_in_per_s, second.rows_out_per_s) == (200.0, 0.0)

    found = scaled({"o1": first, "o2": second}, [("src", "o1"), ("o1", "o2")], {"src": 40})

    # Observed rates would say that o2 keeps up: it takes 100 of 100.
    assert found.tasks == {"o1": 4, "o2": 2}
    assert found.targets == {"o1": 40, "o2": 400}


def test_word_count() -> None:
    found = scaled({"map": rates(1e5, 2e6), "count": rates(1e6, 0)}, [("s", "map"), ("map", "count")], {"s": 1e6})
    assert found.tasks == {"map": 10, "count": 20}


def test_cases_of_the_released_controller() -> None:
    cases = [
        (100, (50, 400), (100, 200), (2, 8), (4, 16)),
        (200, (40, 700), (99, 200), (5, 36), (10, 71)),
        (200, (10, 700), (201, 200), (20, 70), (40, 140)),
    ]
    for rate, first, second, one, two in cases:
        operators = {"1": rates(*first), "2": rates(*second)}
        found = scaled(operators, [("S", "1"), ("1", "2")], {"S": rate})
        assert (found.tasks["1"], found.tasks["2"]) == one
        found = scaled(operators, [("S", "1"), ("T", "1"), ("1", "2")], {"S": rate, "T": rate})
        assert (found.tasks["1"], found.tasks["2"]) == two


def test_a_measured_window_of_word_count() -> None:
    operators = {
        "map": rates(122512.72886314773 + 122613.65236651529, 1244599.9522210688 + 1246045.8737637822, 2),
        "count": rates(1845391.0738689527, 0.0),
    }
    found = scaled(operators, [("s", "map"), ("map", "count")], {"s": 80000.0})
    assert found.tasks == {"map": 1, "count": 1}
    assert (round(found.wanted["map"], 4), round(found.wanted["count"], 4)) == (0.6527, 0.4405)


def test_rates_that_grow_less_than_the_tasks_settle_in_three_steps() -> None:
    def settle(tasks: int) -> list[int]:
        steps = [tasks]
        while True:
            each = 100 / (1 + 0.02 * (steps[-1] - 1))
            after = scaled({"o": rates(each * steps[-1], 0, steps[-1])}, [("s", "o")], {"s": 1000}).tasks["o"]
            if after == steps[-1]:
                return steps
            steps.append(after)

    assert (settle(1), settle(30), settle(13)) == ([1, 10, 12, 13], [30, 16, 13], [13])


def test_tasks_that_did_nothing_are_not_counted() -> None:
    found = TrueRates.of([(100, 10, 1.0), (0, 0, 0.0)])
    assert found == TrueRates(100.0, 10.0, 1)
    assert TrueRates.of([(0, 0, 0.0)]) is None


def test_wasp_scale_example() -> None:
    assert scaled({"o": rates(8000, 0, 2)}, [("s", "o")], {"s": 20000}).tasks == {"o": 5}


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.integers(1, 50), st.floats(0.5, 1.0))
def test_the_least_number_that_keeps_up(target: float, each: float, tasks: int, load: float) -> None:
    found = scaled({"o": rates(each * tasks, 0, tasks)}, [("s", "o")], {"s": target}, load=load).tasks["o"]
    assert found * each * load >= target * (1 - 1e-6)
    assert found == 1 or (found - 1) * each * load < target * (1 + 1e-6)


def test_one_task_at_least() -> None:
    assert (tasks_for(0.0), tasks_for(1.0 + 1e-12), tasks_for(5.0)) == (1, 1, 5)


@given(st.floats(0.1, 30), st.floats(1 / BINS, 1.0), st.floats(0.5, 1.0))
def test_uneven_rows_need_the_least_number_whose_largest_part_keeps_up(
    wanted: float, busiest: float, load: float
) -> None:
    """The bins are dealt out in ranges, the busiest one among them; every number is tried."""
    others = (1 - busiest) / (BINS - 1)

    def largest(tasks: int) -> float:
        widest = max((n + 1) * BINS // tasks - n * BINS // tasks for n in range(tasks))
        return busiest + (widest - 1) * others

    assert all(abs(largest_part(n, busiest) - largest(n)) < 1e-9 for n in range(1, BINS + 1))
    enough = [n for n in range(1, BINS + 1) if largest(n) * wanted <= load + 1e-8]
    found = scaled({"o": TrueRates(1.0, 0.0, 1, busiest)}, [("s", "o")], {"s": wanted}, load=load)
    if is_undivided(wanted, busiest, load=load):
        assert (found.undivided, found.tasks["o"]) == (frozenset({"o"}), tasks_for(wanted, load=load))
    else:
        # No fewer than even rows would need, whatever floats make of a limit.
        assert found.undivided == frozenset()
        assert found.tasks["o"] == max(enough[0], min(BINS, tasks_for(wanted, load=load)))


def test_more_tasks_than_bins_have_no_largest_part() -> None:
    with pytest.raises(ValueError, match="65 tasks for 64 bins"):
        largest_part(BINS + 1, 0.5)
