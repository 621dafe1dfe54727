"""From reports to progress and events."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.tasks import TaskState
from master.queries.progress import (
    behind_texts,
    next_event,
    resumed_progress,
    tasks_gone,
    totals,
    with_report,
)
from master.records.lifecycle import QueryEvent
from master.records.model import ChannelUse, QueryBehind, QueryState, ResultStatus, SiteReport, StreamQuery
from planner.graph.ids import TaskId
from planner.graph.plan import Destination, Stage, StageInput
from planner.values.stages import StageKind
from tests.unit.master.build import (
    CLICKS_EU,
    CLICKS_US,
    MERGE_EU,
    PAGES_US,
    PLAN,
    QUERY_ID,
    START,
    initial_progress,
    query,
    report,
    status,
)

ALIVE = frozenset(("us", "eu", "hub"))
WAIT = timedelta(seconds=5)


def after(record: StreamQuery, *reports: SiteReport) -> StreamQuery:
    for item in reports:
        record = replace(record, progress=with_report(record, item, now=START))
    return record


def event(record: StreamQuery, *, alive: frozenset[str] = ALIVE, later: timedelta = timedelta(0)) -> QueryEvent | None:
    step = next_event(record, alive=alive, now=START + later, final_report_wait=WAIT)
    return step[0] if step else None


RUNNING = (
    report("us", status(PAGES_US, TaskState.ENDED), status(CLICKS_US)),
    report("eu", status(CLICKS_EU, TaskState.BACK_PRESSURED), status(MERGE_EU, TaskState.RETRYING)),
)
ENDED = (
    report("us", status(PAGES_US, TaskState.ENDED), status(CLICKS_US, TaskState.ENDED)),
    report("eu", status(CLICKS_EU, TaskState.ENDED), status(MERGE_EU, TaskState.ENDED)),
)
COMPLETE = report("hub", results=(ResultStatus(QUERY_ID, rows=3, complete=True),))


def test_it_runs_when_every_task_was_seen_at_work() -> None:
    assert event(query()) is None
    assert event(after(query(), RUNNING[0])) is None
    assert event(after(query(), *RUNNING)) is QueryEvent.TASKS_RUNNING


def test_a_starting_task_holds_it_back() -> None:
    record = after(query(), *RUNNING, report("us", status(CLICKS_US, TaskState.STARTING)))
    assert event(record) is None


def test_it_is_finished_when_the_gateway_has_all_and_the_last_totals_are_in() -> None:
    running = replace(after(query(), *RUNNING, COMPLETE), state=QueryState.RUNNING)
    assert event(running) is None
    assert event(after(running, *ENDED)) is QueryEvent.RESULTS_COMPLETE


def test_an_insert_is_finished_when_its_sink_is_and_counts_what_that_wrote() -> None:
    sink = Stage("sink", StageKind.SINK, ("eu",), relation="daily", inputs=(StageInput("merge", "input"),))
    plan = replace(PLAN, stages=(*PLAN.stages, sink), destination=Destination("eu", "daily"))
    record = replace(query(), plan=plan, progress=initial_progress(QUERY_ID, plan), state=QueryState.RUNNING)
    written_by = TaskId(QUERY_ID, "sink")
    assert totals(record).rows_out == 0

    written = after(
        record, ENDED[0], replace(ENDED[1], tasks=(*ENDED[1].tasks, status(written_by, site="eu", rows_out=4)))
    )
    assert (event(written), totals(written).rows_out) == (None, 4)
    # The gateway keeps nothing of it, whatever is reported.
    assert event(after(written, replace(COMPLETE, site="hub"))) is None
    ended = status(written_by, TaskState.ENDED, site="eu", rows_out=9, watermark_us=7)
    done = after(written, replace(ENDED[1], tasks=(*ENDED[1].tasks, ended)))
    assert event(done) is QueryEvent.RESULTS_COMPLETE
    assert (totals(done).rows_out, totals(done).watermark_us) == (9, 7)


def test_last_totals_are_not_waited_for_longer_than_the_wait() -> None:
    running = replace(after(query(), *RUNNING, COMPLETE), state=QueryState.RUNNING)
    assert event(running, later=WAIT - timedelta(microseconds=1)) is None
    assert event(running, later=WAIT) is QueryEvent.RESULTS_COMPLETE


def test_last_totals_of_an_unreachable_site_are_not_waited_for() -> None:
    running = replace(after(query(), RUNNING[1], ENDED[0], COMPLETE), state=QueryState.RUNNING)
    assert event(running) is None
    assert event(running, alive=frozenset(("us", "hub"))) is QueryEvent.RESULTS_COMPLETE


def test_a_failed_task_fails_it_with_the_tasks_reason() -> None:
    record = after(query(), report("us", status(CLICKS_US, TaskState.FAILED, reason="no such path")))
    step = next_event(record, alive=ALIVE, now=START, final_report_wait=WAIT)
    assert step == (QueryEvent.TASK_FAILED, f"task {CLICKS_US} failed: no such path")


@pytest.mark.parametrize("state", [s for s in QueryState if not s.live])
def test_a_query_that_is_not_live_calls_for_nothing(state: QueryState) -> None:
    record = replace(after(query(), *ENDED, COMPLETE), state=state)
    assert event(record) is None


def test_only_the_gateway_speaks_of_results() -> None:
    record = after(query(), report("us", results=(ResultStatus(QUERY_ID, rows=99, complete=True),)))
    assert record.progress.result is None


def test_a_site_speaks_only_of_its_own_tasks_and_of_tasks_of_the_plan() -> None:
    record = after(
        query(),
        report(
            "us",
            status(CLICKS_EU, rows_in=5),
            status(TaskId(QUERY_ID, "pages", 0, True)),
            status(TaskId("q-2", "clicks")),
        ),
    )
    assert record.progress == query().progress


def test_totals_replace_each_other_so_nothing_is_counted_twice() -> None:
    record = after(
        query(),
        report("us", status(CLICKS_US, rows_in=10, rows_late=1, rows_malformed=3), status(PAGES_US, rows_in=1000)),
        report("us", status(CLICKS_US, rows_in=25, rows_late=2, rows_malformed=4), status(PAGES_US, rows_in=1000)),
        report("eu", status(CLICKS_EU, rows_in=7), status(MERGE_EU, rows_in=500, rows_out=4)),
        report("hub", results=(ResultStatus(QUERY_ID, rows=4, watermark_us=77),)),
    )
    found = totals(record)
    assert (found.rows_in, found.rows_out, found.rows_late, found.watermark_us) == (32, 4, 2, 77)
    assert found.rows_malformed == 4


def test_after_its_end_only_more_result_rows_are_taken() -> None:
    over = replace(
        after(query(), *ENDED, report("hub", results=(ResultStatus(QUERY_ID, rows=3),))), state=QueryState.FAILED
    )
    later = after(over, report("us", status(CLICKS_US, rows_in=0)), report("hub", results=(ResultStatus(QUERY_ID, 0),)))
    assert later.progress == over.progress
    more = after(over, report("hub", results=(ResultStatus(QUERY_ID, rows=5),)))
    assert totals(more).rows_out == 5


def use(size: int, *, epochs: int = 0) -> ChannelUse:
    return ChannelUse(CLICKS_US, QUERY_ID, "us", size, epochs)


def test_bytes_are_added_over_incarnations_of_the_agent() -> None:
    record = after(
        query(),
        report("eu", channels=(use(100, epochs=1),)),
        report("eu", channels=(use(150, epochs=2),)),
        report("eu", incarnation="b", channels=(use(20, epochs=1),)),
        report("eu", incarnation="b", channels=(use(30, epochs=2),)),
    )
    (counter,) = record.progress.counters
    assert (counter.from_site, counter.to_site) == ("us", "eu")
    assert (counter.total_bytes, counter.total_epochs) == (180, 4)


def test_uses_of_other_queries_are_left_out() -> None:
    record = after(
        query(), report("eu", channels=(ChannelUse(TaskId("q-0002-00000b", "c"), "q-0002-00000b", "us", 9),))
    )
    assert record.progress.counters == ()


@given(st.lists(st.lists(st.integers(0, 10_000), min_size=1, max_size=6), min_size=1, max_size=5))
def test_the_sum_over_any_restarts_is_the_sum_of_what_each_agent_received(runs: list[list[int]]) -> None:
    record = query()
    for number, received in enumerate(runs):
        count = 0
        for size in received:
            count += size
            record = after(record, report("eu", incarnation=str(number), channels=(use(count),)))
    assert record.progress.counters[0].total_bytes == sum(map(sum, runs))


def test_tasks_are_gone_when_every_reached_site_is_past_their_removal() -> None:
    removed_at = {"us": 7, "eu": 7}
    assert not tasks_gone((("us", 7), ("eu", 6)), removed_at)
    assert tasks_gone((("us", 7), ("eu", 8)), removed_at)
    assert tasks_gone((("us", 7),), removed_at)
    assert tasks_gone((), removed_at)


def behind(*, left: bool, query_id: str = QUERY_ID) -> SiteReport:
    return report("us", status(CLICKS_US, behind=(QueryBehind(query_id, 700, ("eu", "us"), left),)))


@pytest.mark.parametrize("state", QueryState)
def test_a_query_that_is_left_behind_fails_also_while_it_is_paused(state: QueryState) -> None:
    record = replace(after(query(), behind(left=True)), state=state)
    assert (event(record) is QueryEvent.LEFT_BEHIND) == state.held


def test_a_query_that_is_only_behind_or_reads_with_one_that_is_left_runs_on() -> None:
    running = replace(query(), state=QueryState.RUNNING)
    assert event(after(running, behind(left=False))) is None
    assert event(after(running, behind(left=True, query_id="q-0002-b"))) is None
    ((text, last),) = behind_texts(after(running, behind(left=False)))
    assert (text, last) == (f"behind by 700 bytes of {CLICKS_US}, which wait for it at eu, us", False)
    assert not behind_texts(after(running, behind(left=False), report("us", status(CLICKS_US))))


def test_totals_of_a_task_that_stands_still_are_not_lost_with_its_agent() -> None:
    worked = report("us", status(CLICKS_US, rows_in=25, rows_late=2, watermark_us=7, rows_in_per_s=3.0))
    still = report("us", status(CLICKS_US, TaskState.PAUSED, retained_bytes=5))
    task = after(query(), worked, still).progress.tasks[CLICKS_US]
    assert (task.state, task.rows_in, task.rows_late, task.watermark_us) == (TaskState.PAUSED, 25, 2, 7)
    assert (task.rows_in_per_s, task.retained_bytes) == (0.0, 5)


def test_a_query_that_goes_on_waits_until_all_its_tasks_have_been_seen_again() -> None:
    record = after(query(), *RUNNING)
    record = replace(record, state=QueryState.RESUMING, progress=resumed_progress(record.progress))
    assert event(record) is None
    assert event(after(record, *RUNNING)) is QueryEvent.TASKS_RUNNING
    assert event(after(record, *RUNNING, report("us", status(CLICKS_US, TaskState.PAUSED)))) is None
