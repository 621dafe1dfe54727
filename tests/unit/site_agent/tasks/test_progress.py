from __future__ import annotations

import pytest

from contract.tasks import TaskState
from site_agent.engine import OperatorRows
from site_agent.tasks.progress import OperatorStatus, Progress, Sample, Totals


def test_totals_survive_json() -> None:
    totals = Totals(rows_in=3, rows_out=2, rows_late=1, bytes_out=9, rows_malformed=4)

    assert Totals.from_json(totals.to_json()) == totals


@pytest.mark.parametrize("value", [None, 7, {}, {"rows_in": "x"}, ["rows_in"]])
def test_foreign_totals_count_as_nothing(value: object) -> None:
    assert Totals.from_json(value) == Totals()  # type: ignore[arg-type]


def rates(progress: Progress, now_s: float) -> tuple[float, float, float, float]:
    found = progress.figures(now_s)
    return found.rows_in_per_s, found.rows_out_per_s, found.bytes_out_per_s, found.busy_ratio


def test_what_a_task_measures_stands_beside_what_epochs_add_up_to() -> None:
    progress = Progress(0.0)
    progress.totals = Totals(rows_in=5, bytes_in=900)
    progress.measure(lag_rows=7)
    progress.measure(state_rows=3)
    found = progress.figures(1.0)
    assert (found.lag_rows, found.state_rows, found.rows_in, found.input_bytes) == (7, 3, 5, 900)
    with pytest.raises(TypeError, match="rows_lost"):
        progress.measure(rows_lost=1)


def test_delays_of_windows_add_up() -> None:
    progress = Progress(0.0)
    for delay_s in (1.5, 4.0, -0.5):
        # A site's clock may be behind the one that gave rows their times.
        progress.emitted(delay_s)
    found = progress.figures(1.0)
    assert (found.emit_delay_s, found.emissions, found.emit_delays_s) == (0.0, 3, 5.5)


def test_the_busiest_bin_is_that_of_the_last_minute() -> None:
    progress = Progress(0.0)
    assert progress.figures(0.5).busiest_bin_ratio == 0.0
    progress.epoch_done(Sample(1.0, 0.1, 100, 0, 0, rows_by_bin={7: 80, 8: 20}))
    progress.epoch_done(Sample(50.0, 0.1, 40, 0, 0, rows_by_bin={8: 30, 9: 10}))
    assert progress.figures(50.0).busiest_bin_ratio == 80 / 140
    assert progress.figures(100.0).busiest_bin_ratio == 30 / 40
    assert progress.figures(120.0).busiest_bin_ratio == 0.0


def test_no_epoch_means_no_rate() -> None:
    assert rates(Progress(0.0), 10.0) == (0.0, 0.0, 0.0, 0.0)


def test_rates_are_over_the_time_since_the_start_when_young() -> None:
    progress = Progress(100.0)
    progress.epoch_done(Sample(102.0, 1.0, rows_in=20, rows_out=10, bytes_out=40))

    assert rates(progress, 104.0) == (5.0, 2.5, 10.0, 0.25)


def test_old_epochs_are_forgotten() -> None:
    progress = Progress(0.0)
    progress.epoch_done(Sample(1.0, 1.0, 600, 600, 600))
    progress.epoch_done(Sample(90.0, 3.0, 60, 30, 0))

    assert rates(progress, 100.0) == (1.0, 0.5, 0.0, 0.05)
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
    assert progress.figures(0.0).in_flight_bytes == 0
    for at_s, held_bytes in ((1.0, 500), (50.0, 200), (55.0, 100)):
        progress.epoch_done(Sample(at_s, 0.1, 1, 1, 1, held_bytes))
    assert progress.figures(60.0).in_flight_bytes == 500
    assert progress.figures(62.0).in_flight_bytes == 200
    assert progress.figures(200.0).in_flight_bytes == 0


def test_an_epoch_takes_along_what_was_waited_before_its_end() -> None:
    progress = Progress(0.0)
    progress.waited(1.0)
    progress.waited(0.5)
    assert progress.figures(10.0).waiting_ratio == 0
    progress.epoch_done(Sample(4.0, 2.0, 1, 1, 1))
    progress.epoch_done(Sample(8.0, 2.0, 1, 1, 1))
    assert progress.figures(10.0).waiting_ratio == 0.15


def test_the_time_that_went_by_is_told_as_totals() -> None:
    progress = Progress(100.0)
    progress.room_waited(3.0)
    progress.waited(0.5)
    progress.disk_waited(0.25)
    progress.epoch_done(Sample(110.0, 2.0, 1, 1, 1))
    progress.disk_waited(1.0)
    figures = progress.figures(200.0)
    assert (figures.running_s, figures.useful_s, figures.slot_s) == (100.0, 1.25, 0.5)
    assert (figures.disk_s, figures.room_s) == (1.25, 3.0)
