"""The table of figures, and how figures come into messages and out of them."""

from __future__ import annotations

from contract.figures import FIGURES, Figure, Fold, TaskFigures, Traits, Unit, figures_of, put_figures
from selat.v1 import site_pb2


def test_figures_of_a_message_are_those_that_were_put_into_it() -> None:
    message = site_pb2.TaskStatus()
    put_figures(message, TaskFigures(rows_in=7, busy_ratio=0.5, failures=2))
    assert (message.rows_in, message.busy_ratio, dict(message.figures)) == (7, 0.5, {"failures": 2})
    assert TaskFigures(**figures_of(message)) == TaskFigures(rows_in=7, busy_ratio=0.5, failures=2)
    assert type(figures_of(message)["failures"]) is int


def test_what_a_sender_does_not_know_is_0_and_what_a_receiver_does_not_know_is_left_out() -> None:
    message = site_pb2.TaskStatus(rows_out=3, figures={"of_a_later_version": 1.0})
    assert TaskFigures(**figures_of(message)) == TaskFigures(rows_out=3)


def test_counts_are_added_up_and_of_shares_the_greatest_holds() -> None:
    tasks = (TaskFigures(rows_in=2, busy_ratio=0.25), TaskFigures(rows_in=3, busy_ratio=0.75))
    folded = {figure.name: figure.over(tasks) for figure in FIGURES}
    assert (folded["rows_in"], folded["busy_ratio"], folded["lag_rows"]) == (5, 0.75, 0)
    assert Figure("busy_ratio", Traits(Unit.RATIO, "", fold=Fold.GREATEST)).over(()) == 0


def test_a_metric_that_grows_is_called_total() -> None:
    for figure in FIGURES:
        assert figure.traits.metric.endswith("_total") == (figure.traits.grows and figure.traits.metric != "")
