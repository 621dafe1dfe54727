from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.batch import EstimateSettings, Shard, Task, TaskHistory, accuracy, lease_estimate_s, run_time_s, transfer_s

MBIT = 125_000.0
MB = 1_000_000
TASK = Task("t", "j", "wordcount", (Shard("x", 16 * MB), Shard("y", 32 * MB)))


def bandwidth(source: str, target: str) -> float:
    return {"x": 8 * MBIT, "y": 32 * MBIT}[source]


def task(size_bytes: int, model: str = "wordcount", family: str = "") -> Task:
    return Task("other", "j", model, (Shard("x", size_bytes),), family)


def test_the_example_of_the_source() -> None:
    history = TaskHistory()
    history.add(TASK, "a", 12.0)
    assert lease_estimate_s(TASK, "a", bandwidth, history, EstimateSettings(slack_s=2.0)) == pytest.approx(30.0)


def test_shards_at_the_site_itself_take_no_time() -> None:
    assert transfer_s(TASK, "a", bandwidth) == pytest.approx(16.0)
    assert transfer_s(TASK, "x", bandwidth) == pytest.approx(8.0)
    assert transfer_s(task(MB), "x", bandwidth) == 0.0


def test_a_task_of_which_nothing_is_known_gets_the_default() -> None:
    history = TaskHistory()
    history.add(task(48 * MB, model="grep"), "a", 12.0)
    settings = EstimateSettings(unknown_s=77.0, slack_s=2.0)
    assert lease_estimate_s(TASK, "a", bandwidth, history, settings) == 77.0
    # Its transfers are known all the same, and tell sites apart.
    assert run_time_s(TASK, "a", bandwidth, history, settings) == 16 + 77 + 2
    assert run_time_s(TASK, "x", bandwidth, history, settings) == 8 + 77 + 2


def test_a_lease_by_default_is_not_shorter_than_the_transfers() -> None:
    settings = EstimateSettings(unknown_s=10.0, slack_s=2.0)
    assert lease_estimate_s(TASK, "a", bandwidth, TaskHistory(), settings) == 16 + 2


def test_other_sizes_of_the_model_give_a_guess_by_bytes() -> None:
    history = TaskHistory()
    history.add(task(64 * MB), "a", 16.0)
    history.add(task(2 * MB), "a", 8.0)
    settings = EstimateSettings(unknown_s=20.0, slack_s=0.0)
    # Of the nearest size, and in proportion.
    assert lease_estimate_s(task(20 * MB), "x", bandwidth, history, settings) == pytest.approx(5.0)
    assert run_time_s(task(20 * MB), "x", bandwidth, history, settings) == pytest.approx(5.0)
    # Not beyond what would be taken without any knowledge,
    assert lease_estimate_s(task(200 * MB), "x", bandwidth, history, settings) == pytest.approx(20.0)
    # unless a smaller one took that long.
    history.add(task(64 * MB), "a", 64.0)
    assert lease_estimate_s(task(200 * MB), "x", bandwidth, history, settings) == pytest.approx(40.0)
    # Whose like has ended needs no guess.
    assert lease_estimate_s(task(MB * 3 // 2), "x", bandwidth, history, settings) == 8.0


def test_a_new_model_is_guessed_by_its_family() -> None:
    history = TaskHistory()
    history.add(task(64 * MB, "map 1", "map"), "a", 16.0)
    history.add(task(1 * MB, "reduce 1", "reduce"), "a", 50.0)
    assert history.guess_s(task(64 * MB, "map 2", "map"), 100.0) == 16.0
    assert history.guess_s(task(64 * MB, "map 2"), 100.0) is None
    history.add(task(8 * MB, "map 2", "map"), "a", 4.0)
    assert history.guess_s(task(64 * MB, "map 2", "map"), 100.0) == pytest.approx(32.0)


@given(st.integers(0, 40), st.integers(0, 40), st.floats(0, 1000))
def test_a_guess_is_between_nothing_and_the_larger_of_the_default_and_what_was_seen(
    known_log: int, size_log: int, took_s: float
) -> None:
    history = TaskHistory()
    history.add(task(2**known_log - 1), "a", took_s)
    guess_s = history.guess_s(task(2**size_log - 1), 100.0)
    assert guess_s is not None
    assert 0 <= guess_s <= max(100.0, took_s)
    assert guess_s >= took_s or size_log < known_log


def test_with_a_history_both_estimates_are_the_same() -> None:
    history = TaskHistory()
    history.add(TASK, "a", 12.0)
    given = (TASK, "b", bandwidth, history, EstimateSettings())
    assert run_time_s(*given) == lease_estimate_s(*given)


def test_the_site_s_own_tasks_count_before_those_of_others() -> None:
    history = TaskHistory()
    history.add(TASK, "b", 40.0)
    assert history.processing_s(TASK, "a") == 40.0
    history.add(TASK, "a", 10.0)
    assert history.processing_s(TASK, "a") == 10.0
    assert history.processing_s(TASK, "c") == 25.0


def test_only_the_last_tasks_count() -> None:
    history = TaskHistory(records=2)
    for processing_s in (100.0, 10.0, 20.0):
        history.add(TASK, "a", processing_s)
    assert history.processing_s(TASK, "a") == 15.0


def test_accuracy_is_relative_to_what_happened() -> None:
    assert accuracy(actual_s=50.0, predicted_s=50.0) == 1.0
    assert accuracy(actual_s=50.0, predicted_s=60.0) == pytest.approx(0.8)
    assert accuracy(actual_s=50.0, predicted_s=150.0) == pytest.approx(-1.0)


def test_a_shard_that_is_read_at_its_site_takes_as_long_there_as_its_task_does() -> None:
    read = replace(TASK, is_read_there=True)
    history, settings = TaskHistory(), EstimateSettings(slack_s=2.0)
    history.add(read, "a", 12.0)
    assert lease_estimate_s(read, "a", bandwidth, history, settings) == pytest.approx(16 + 12 + 12 + 2)
    own = task(48 * MB)
    assert run_time_s(replace(own, is_read_there=True), "x", bandwidth, history, settings) == 12 + 2


def test_the_time_of_reading_is_that_of_the_last_like_tasks() -> None:
    read = replace(TASK, is_read_there=True)
    history, settings = TaskHistory(), EstimateSettings(slack_s=2.0)
    history.add(read, "a", 12.0)
    history.add_reading(read, 3.0)
    history.add_reading(read, 5.0)
    assert run_time_s(read, "a", bandwidth, history, settings) == pytest.approx(16 + 4 + 12 + 2)
    assert run_time_s(TASK, "a", bandwidth, history, settings) == pytest.approx(16 + 12 + 2)


def test_sites_with_fast_links_do_not_trade_their_shards() -> None:
    """Tasks of one site took longer than those of the other, as they do where both share a machine."""
    history, settings = TaskHistory(), EstimateSettings()
    read = replace(task(48 * MB), is_read_there=True)
    history.add(read, "x", 1.5)
    history.add(read, "y", 1.0)

    def fast(_source: str, _target: str) -> float:
        return 1000 * MBIT

    assert run_time_s(read, "x", fast, history, settings) < run_time_s(read, "y", fast, history, settings)
