from __future__ import annotations

import pytest

from contract.tasks import TaskState
from site_agent.engine import OperatorRows
from site_agent.tasks.progress import OperatorStatus, Progress, Rates, Sample, Totals


def test_totals_survive_json() -> None:
    totals = Totals(rows_in=3, rows_out=2, rows_late=1, bytes_out=9, rows_malformed=4)

    assert Totals.from_json(totals.to_json()) == totals


@pytest.mark.parametrize("value", [None, 7, {}, {"rows_in": "x"}, ["rows_in"]])
def test_foreign_totals_count_as_nothing(value: object) -> None:
    assert Totals.from_json(value) == Totals()  # type: ignore[arg-type]


def test_no_epoch_means_no_rate() -> None:
    assert Progress(0.0).rates(10.0) == Rates()


def test_rates_are_over_the_time_since_the_start_when_young() -> None:
    progress = Progress(100.0)
    progress.epoch_done(Sample(102.0, 1.0, rows_in=20, rows_out=10, bytes_out=40))

    assert progress.rates(104.0) == Rates(5.0, 2.5, 10.0, 0.25)


def test_old_epochs_are_forgotten() -> None:
    progress = Progress(0.0)
    progress.epoch_done(Sample(1.0, 1.0, 600, 600, 600))
    progress.epoch_done(Sample(90.0, 3.0, 60, 30, 0))

    assert progress.rates(100.0) == Rates(1.0, 0.5, 0.0, 0.05)
    assert progress.epochs == 2


def test_a_state_carries_its_reason_until_the_next() -> None:
    progress = Progress(0.0)
    progress.enter(TaskState.RETRYING, "disk full")
    assert progress.reason == "disk full"
    progress.enter(TaskState.RUNNING)
    assert (progress.state, progress.reason) == (TaskState.RUNNING, "")


def test_operators_keep_their_place_when_an_epoch_lacks_one() -> None:
    progress = Progress(0.0)
    filters = (OperatorRows("Filter", 6), OperatorRows("Join", 4), OperatorRows("Filter", 2))
    progress.epoch_done(Sample(1.0, 1.0, 10, 2, 0, operators=filters))
    progress.epoch_done(Sample(2.0, 1.0, 10, 0, 0, operators=filters[:1]))
    progress.epoch_done(Sample(90.0, 1.0, 10, 2, 0, operators=filters))

    assert progress.operators(100.0) == (
        OperatorStatus("Filter", 18, 0.1),
        OperatorStatus("Join", 8, 4 / 60),
        OperatorStatus("Filter", 4, 2 / 60),
    )


def test_bytes_in_flight_are_those_of_the_largest_epoch_of_the_last_minute() -> None:
    progress = Progress(0.0)
    assert progress.in_flight_bytes(0.0) == 0
    for at_s, held_bytes in ((1.0, 500), (50.0, 200), (55.0, 100)):
        progress.epoch_done(Sample(at_s, 0.1, 1, 1, 1, held_bytes))
    assert progress.in_flight_bytes(60.0) == 500
    assert progress.in_flight_bytes(62.0) == 200
    assert progress.in_flight_bytes(200.0) == 0
