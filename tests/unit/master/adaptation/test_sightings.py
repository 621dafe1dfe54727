"""What sites report becomes pictures of an instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from contract.tasks import TaskState
from master.adaptation.sightings import Sightings
from master.records.model import InputStatus, SiteReport, TaskStatus
from planner.adapt.model import ChannelSeen, Phase
from planner.graph.ids import TaskId
from planner.sharing.vertices import RESULTS

START = datetime(2026, 11, 1, tzinfo=UTC)
SOURCE, PARTS = TaskId("q", "s1"), (TaskId("q", "m1", 0), TaskId("q", "m1", 1))


def source(epochs: int, state: TaskState = TaskState.RUNNING, **figures: float) -> SiteReport:
    """A hundred rows in each epoch."""
    status = TaskStatus(SOURCE, "q", "s1", "us", state, next_epoch=epochs, rows_out=100 * epochs, **figures)  # type: ignore[arg-type]
    return SiteReport("us", "a", tasks=(status,))


def reads(*inputs: InputStatus) -> SiteReport:
    return SiteReport("eu", "a", inputs=inputs)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_rows_before_a_link_are_epochs_that_did_not_cross() -> None:
    sightings = Sightings(START)
    sightings.take(source(10), at(1))
    sightings.take(reads(InputStatus(PARTS[0], SOURCE, stored_epoch=7, next_epoch=5, waiting_rows=200)), at(2))
    assert sightings.seen(at(2)).channels == {(SOURCE, PARTS[0]): ChannelSeen(1000, 700, 500)}


def test_a_writer_that_reports_later_makes_no_queue() -> None:
    sightings = Sightings(START)
    sightings.take(source(10), at(1))
    sightings.take(reads(InputStatus(PARTS[0], SOURCE, stored_epoch=12, next_epoch=12)), at(2))
    sightings.take(source(20), at(3))
    seen = sightings.seen(at(3)).channels[SOURCE, PARTS[0]]
    assert seen.produced == seen.stored == seen.taken


def test_parts_have_the_shares_that_they_took() -> None:
    sightings = Sightings(START)
    sightings.take(source(10), at(1))
    both = [InputStatus(part, SOURCE, 10, 10, taken_rows=rows) for part, rows in zip(PARTS, (750, 250), strict=True)]
    sightings.take(reads(*both), at(2))
    sightings.take(reads(*both), at(3))
    assert [c.produced for c in sightings.seen(at(3)).channels.values()] == [750, 250]


def test_phases_and_times() -> None:
    sightings = Sightings(START)
    sightings.take(source(1, TaskState.PAUSED, running_s=5.0, useful_s=2.0), at(1))
    seen = sightings.seen(at(1)).tasks[SOURCE]
    assert (seen.phase, seen.at, seen.counters.useful_s) == (Phase.PAUSED, at(1), 2.0)
    # An agent of an earlier version tells no times.
    sightings.take(source(1, TaskState.RETRYING), at(2))
    seen = sightings.seen(at(2)).tasks[SOURCE]
    assert (seen.phase, seen.counters.useful_s, seen.counters.disk_s) == (Phase.STARTING, None, None)


def test_copies_of_results_are_a_reader_of_their_own() -> None:
    sightings, results = Sightings(START), TaskId("q", RESULTS)
    sightings.take(source(10), at(1))
    sightings.take(reads(InputStatus(results, SOURCE, stored_epoch=9, next_epoch=9)), at(2))
    seen = sightings.seen(at(2)).tasks[results]
    assert (seen.counters.rows_in, seen.counters.running_s) == (900, 2.0)


def test_what_does_not_run_any_more_is_forgotten() -> None:
    sightings = Sightings(START)
    sightings.take(source(10), at(1))
    sightings.take(reads(InputStatus(PARTS[0], SOURCE, 10, 10)), at(2))
    sightings.keep_only([SOURCE])
    assert set(sightings.seen(at(3)).tasks) == {SOURCE}
    assert not sightings.seen(at(3)).channels
