"""Tests what follows in a handover: every step with everything that can be told, and whole handovers."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from planner.handover.model import Handover, Step
from planner.handover.steps import MOVES, Event, Told, event, unwanted

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PATIENCE = timedelta(minutes=10)
HANDOVER = Handover(1, "eu", "us", NOW)
FLAGS = [field.name for field in fields(Told) if field.name != "unwanted"]


def everything() -> list[Told]:
    """All that can be told, true at the same time or not."""
    said = [dict(zip(FLAGS, values, strict=True)) for values in product((False, True), repeat=len(FLAGS))]
    return [Told(**flags, unwanted=why) for flags in said for why in ("", "called off")]


@pytest.mark.parametrize("step", Step)
def test_every_event_has_a_move(step: Step) -> None:
    found = {event(HANDOVER.at(step, NOW), told) for told in everything()} - {None}
    assert found == {of for at, of in MOVES if at is step}


@pytest.mark.parametrize("told", everything(), ids=str)
def test_what_the_old_task_has_ended_is_never_rolled_back(told: Told) -> None:
    if told.had_cut:
        for step in (Step.CUT, Step.WITHDRAWN, Step.TAKEN):
            found = event(HANDOVER.at(step, NOW), told)
            assert found is None or MOVES[step, found] not in (Step.BACK, Step.WITHDRAWN) or step is Step.TAKEN


@pytest.mark.parametrize("told", everything(), ids=str)
def test_the_order_to_end_the_channel_is_given_to_nobody_whose_successor_is_not_ready(told: Told) -> None:
    for step in Step:
        found = event(HANDOVER.at(step, NOW), told)
        if found is not None and MOVES[step, found] is Step.CUT:
            assert told.ready or told.had_cut


def test_a_withdrawn_order_is_waited_for_at_the_old_task() -> None:
    withdrawn = HANDOVER.at(Step.WITHDRAWN, NOW)
    assert event(withdrawn, Told(unwanted="called off")) is None
    assert event(withdrawn, Told(in_force=True)) is Event.KEPT_ON
    assert event(withdrawn, Told(in_force=True, had_cut=True)) is Event.HAD_CUT
    assert event(withdrawn, Told(ended=True)) is Event.KEPT_ON


def test_nothing_begins_that_is_not_wanted() -> None:
    for step in (Step.REGISTERED, Step.STARTED, Step.SEEDING):
        at = HANDOVER.at(step, NOW)
        told = Told(in_force=True, subscribed=True, ready=True)
        assert event(at, told) not in (None, Event.GIVEN_UP)
        assert event(at, replace(told, unwanted="the site is draining")) is Event.GIVEN_UP
        # Its inputs have ended before anything was handed over.
        assert event(at, replace(told, ended=True)) is Event.GIVEN_UP


def test_a_step_that_takes_too_long_is_given_up() -> None:
    at = HANDOVER.at(Step.SEEDING, NOW)
    assert unwanted(at, NOW + timedelta(minutes=9), patience=PATIENCE) == ""
    told = unwanted(at, NOW + PATIENCE, patience=PATIENCE)
    assert told == "the new task did not catch up within 600 s"
    assert unwanted(at, NOW, patience=PATIENCE, withdrawn="called off") == "called off"
    # The clock of each step is its own.
    assert unwanted(at.at(Step.CUT, NOW + PATIENCE), NOW + PATIENCE, patience=PATIENCE) == ""
