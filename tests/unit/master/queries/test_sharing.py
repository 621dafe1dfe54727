"""Which tasks run follows from the queries that need them; what is saved, from what each of them received."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from contract.tasks import ReadFrom, TaskState
from master.base.errors import InvalidRequestError
from master.planning.settings import Settings, checked_setting, combines, degrades, setting_rows, with_settings
from master.queries.progress import with_report
from master.queries.retention import EndedRetention, purgeable
from master.queries.savings import shared_operators, shared_parts
from master.queries.sharing import edges_of, redeployed, without_late
from master.reconcile.assignments import AssignmentInput, build_assignments, result_channels
from master.records.model import (
    ChannelCounter,
    ChannelUse,
    QueryRecord,
    QueryState,
    SiteReport,
    StreamQuery,
    TaskStatus,
)
from master.records.specs import ChannelReader, QueryReaders, TaskSpec
from master.store import codec
from planner.batch import BatchOptions, Policy
from planner.graph.ids import TaskId, VertexId
from planner.sharing.deployment import Deployment, Start, deployment_of, told_apart
from planner.sharing.modes import Sharing
from planner.sharing.plans import Setting
from planner.sharing.running import MutableRunning, Running
from planner.sharing.schedule import share
from planner.sharing.vertices import vertices_of
from planner.sharing.wan import Wan
from planner.values.adapting import Degrade, Degrading
from planner.values.topology import Link, Topology
from planner.values.trees import Tree
from tests.unit.master.build import (
    CATALOG,
    CLICKS,
    PAGES,
    PLAN,
    START,
    TOPOLOGY,
    initial_progress,
    placement_of,
    query,
    running_of,
    task_at,
)

NAMES = ("hub", "us", "eu")
WAN = Topology(
    sites=TOPOLOGY.sites,
    links={(a, b): Link(a, b, 2.5e6, timedelta(milliseconds=40)) for a in NAMES for b in NAMES if a != b},
    gateway="hub",
)
OTHER = replace(PLAN.stage("merge"), sql="SELECT topic, max(n) n FROM input GROUP BY 1")
OTHER_PLAN = replace(PLAN, stages=(*PLAN.stages[:2], OTHER))
RELATIONS = {"clicks": CLICKS, "pages": PAGES}
FIRST, SECOND, THIRD = "q-0001-a", "q-0002-b", "q-0003-c"


def deployed(identifier: str, running: Running, plan: object = PLAN, start: Start = Start.HISTORY) -> StreamQuery:
    assert isinstance(plan, type(PLAN))
    vertices = told_apart(vertices_of(plan, RELATIONS, {}, owner=identifier, gateway="hub"), identifier)
    setting = Setting(running, Wan(WAN), frozenset(NAMES), Sharing.SANA, placed={VertexId("merge"): "eu"})
    deployment = deployment_of(share(identifier, vertices, setting), vertices, running, start=start)
    return replace(
        query(identifier),
        plan=plan,
        deployment=deployment,
        progress=initial_progress(identifier, plan, deployment, running.placement),
        state=QueryState.RUNNING,
    )


def two(start: Start = Start.HISTORY) -> tuple[StreamQuery, StreamQuery]:
    """The second has a merge of its own over the sources of the first."""
    first = deployed(FIRST, MutableRunning())
    return first, deployed(SECOND, running_of([first], {FIRST}), OTHER_PLAN, start)


def tasks(*queries: QueryRecord, held_back: frozenset[str] = frozenset()) -> dict[TaskId, TaskSpec]:
    snapshot = AssignmentInput(queries, placement_of(*queries), CATALOG, NAMES, {}, START, held_back)
    built = build_assignments(snapshot, epoch_interval=timedelta(seconds=1), results_retention=timedelta(hours=1))
    return {task.task_id: task for assignment in built.values() for task in assignment.tasks}


SOURCES = {task_at(FIRST, "clicks", "us"), task_at(FIRST, "clicks", "eu"), task_at(FIRST, "pages", "us")}


def test_a_task_runs_as_long_as_somebody_needs_it() -> None:
    first, second = two()
    merges = {task_at(FIRST, "merge", "eu"), task_at(SECOND, "merge", "eu")}
    assert tasks(first, second).keys() == SOURCES | merges
    over = replace(first, state=QueryState.CANCELLED, ended_at=START)
    assert tasks(over, second).keys() == SOURCES | {task_at(SECOND, "merge", "eu")}
    assert tasks(first, replace(second, state=QueryState.FAILED, ended_at=START)) == tasks(first)
    assert not tasks(over, replace(second, state=QueryState.CANCELLING))


def test_tasks_of_a_query_without_slots_stand_still_but_for_those_that_others_need() -> None:
    first, second = two()
    given = tasks(first, second, held_back=frozenset({FIRST}))
    assert given.keys() == tasks(first, second).keys()
    assert {name for name, task in given.items() if task.paused} == {task_at(FIRST, "merge", "eu")}


def test_the_shared_task_is_the_same_for_whoever_needs_it() -> None:
    first, second = two()
    over = replace(first, state=QueryState.CANCELLED, ended_at=START)
    for name in SOURCES:
        both = replace(tasks(first, second)[name], readers=())
        assert tasks(first)[name] == both == tasks(over, second)[name]
    inputs = tasks(over, second)[task_at(SECOND, "merge", "eu")].inputs
    assert {(i.channel, i.site, i.view, i.read_from) for i in inputs} == {
        (task_at(FIRST, "clicks", "us"), "us", "input", ReadFrom.FIRST),
        (task_at(FIRST, "clicks", "eu"), "eu", "input", ReadFrom.FIRST),
    }


def test_who_may_begin_in_the_middle_is_told_the_delay() -> None:
    first, second = two(Start.NEXT_WINDOW)
    inputs = tasks(first, second)[task_at(SECOND, "merge", "eu")].inputs
    assert {(i.read_from, i.event_delay) for i in inputs} == {(ReadFrom.OLDEST, timedelta(seconds=5))}


def test_a_paused_query_leaves_the_tasks_that_others_need_at_work() -> None:
    first, second = two()
    still = replace(first, state=QueryState.PAUSED)
    assert {name for name, task in tasks(still, second).items() if task.paused} == {task_at(FIRST, "merge", "eu")}
    assert tasks(still, second).keys() == tasks(first, second).keys()
    both = tasks(still, replace(second, state=QueryState.PAUSED))
    assert all(task.paused for task in both.values())
    # One that waits for slots to go on stands still.
    waits = replace(first, state=QueryState.RESUMING)
    assert tasks(waits, second, held_back=frozenset({FIRST})) == tasks(still, second)
    # What is over is known as long as a paused query needs it.
    over = replace(first, state=QueryState.CANCELLED, ended_at=START)
    kept = tasks(over, replace(second, state=QueryState.PAUSED))
    assert kept.keys() == SOURCES | {task_at(SECOND, "merge", "eu")}
    assert all(task.paused for task in kept.values())
    assert {
        task.consumers for name, task in tasks(still, second).items() if name == task_at(FIRST, "clicks", "us")
    } == {("eu",)}


def test_a_task_that_queries_share_is_told_the_readers_of_each() -> None:
    first, second = two()
    told = tasks(first, second)
    own, other = (ChannelReader("eu", str(TaskId(query, "merge"))) for query in (FIRST, SECOND))
    assert told[task_at(FIRST, "clicks", "us")].readers == (QueryReaders(FIRST, (own,)), QueryReaders(SECOND, (other,)))
    # The merges are read by one query each; the table by sources that both need alike.
    assert not any(
        told[name].readers
        for name in (task_at(FIRST, "merge", "eu"), task_at(SECOND, "merge", "eu"), task_at(FIRST, "pages", "us"))
    )
    assert not any(task.readers for task in tasks(first).values())
    same = deployed(THIRD, running_of([first], {FIRST}))
    results = [ChannelReader("hub", f"results:{query}") for query in (FIRST, THIRD)]
    assert tasks(first, same)[task_at(FIRST, "merge", "eu")].readers == (
        QueryReaders(FIRST, (results[0],)),
        QueryReaders(THIRD, (results[1],)),
    )


def test_results_of_the_same_query_are_the_same_channels() -> None:
    first = deployed(FIRST, MutableRunning())
    second = deployed(SECOND, running_of([first], {FIRST}))
    assert result_channels(second) == result_channels(first) == (task_at(FIRST, "merge", "eu"),)
    assert tasks(first, second).keys() == tasks(first).keys()


def test_what_is_shared_survives_the_store() -> None:
    _, second = two()
    assert second.deployment is not None
    assert codec.loads(Deployment, codec.dumps(second.deployment)) == second.deployment


def test_progress_counts_the_tasks_of_others_as_the_querys_own_stages() -> None:
    first, second = two()
    assert set(second.progress.tasks) == SOURCES | {task_at(SECOND, "merge", "eu")}
    status = TaskStatus(task_at(FIRST, "clicks", "us"), FIRST, "clicks", "us", TaskState.RUNNING, rows_in=7)
    edges = edges_of(running_of([first, second], {FIRST, SECOND}), SECOND)
    progress = with_report(second, SiteReport("us", "us-a", tasks=(status,)), now=START, edges=edges)
    assert progress.tasks[status.task_id].rows_in == 7
    assert (task_at(FIRST, "clicks", "us"), "eu") in edges
    assert (task_at(FIRST, "merge", "eu"), "hub") not in edges


def test_a_channel_that_is_out_of_reach_is_replaced_by_one_of_its_own() -> None:
    first, second = two()
    status = TaskStatus(task_at(SECOND, "merge", "eu"), SECOND, "merge", "eu", TaskState.RUNNING, rows_in=3)
    second = with_progress(second, status)
    running = running_of([first, second], {FIRST, SECOND})
    change = without_late(second, {task_at(FIRST, "clicks", "us")}, running)
    assert change is not None
    assert change.placement[task_at(SECOND, "clicks", "us")] == "us"
    changed = redeployed(second, change, {**running.placement, **change.placement})
    assert changed.progress.tasks[status.task_id] == status
    assert task_at(FIRST, "clicks", "us") not in changed.progress.tasks
    merge = tasks(first, changed)[task_at(SECOND, "merge", "eu")]
    assert [i.channel for i in merge.inputs] == [task_at(SECOND, "clicks", "us"), task_at(FIRST, "clicks", "eu")]
    # Its table is shared on.
    assert [i.channel for i in tasks(first, changed)[task_at(SECOND, "clicks", "us")].inputs] == [
        task_at(FIRST, "pages", "us")
    ]
    assert without_late(changed, {task_at(FIRST, "clicks", "us")}, running) is None
    assert without_late(query(), {task_at(FIRST, "clicks", "us")}, running) is None


def with_progress(record: StreamQuery, *statuses: TaskStatus, counters: tuple[ChannelCounter, ...] = ()) -> StreamQuery:
    known = {**record.progress.tasks, **{status.task_id: status for status in statuses}}
    return replace(record, progress=replace(record.progress, tasks=known, counters=counters))


def test_who_received_most_has_paid_and_the_rest_is_saved() -> None:
    first, second = two()
    third = deployed(THIRD, running_of([first, second], {FIRST, SECOND}))
    channel = task_at(FIRST, "clicks", "us")
    records = tuple(
        with_progress(record, counters=(ChannelCounter(channel, "us", "eu", "eu-a", size),))
        for record, size in ((first, 1000), (second, 600), (third, 1000))
    )
    running = running_of(records, {FIRST, SECOND, THIRD})
    shared = {operator.task_id: operator for operator in shared_operators(records, running)}
    assert shared[channel].queries == (FIRST, SECOND, THIRD)
    assert [(x.bytes, x.bytes_saved) for x in shared[channel].links] == [(1000, 1600)]
    assert shared[task_at(FIRST, "merge", "eu")].queries == (FIRST, THIRD)
    parts = [shared_parts(record, records, running) for record in records]
    assert [part.bytes_saved for part in parts if part is not None] == [0, 600, 1000]
    assert shared_parts(query(), records, running) is None


def test_bytes_from_before_a_query_joined_in_the_middle_are_not_its_own() -> None:
    first, second = two(Start.NEXT_WINDOW)
    edges = edges_of(running_of([first, second], {FIRST, SECOND}), SECOND)
    for size, counted in ((500, 0), (800, 300)):
        use = ChannelUse(task_at(FIRST, "clicks", "us"), FIRST, "us", size)
        report = SiteReport("eu", "eu-a", channels=(use,))
        second = replace(second, progress=with_report(second, report, now=START, edges=edges))
        assert [counter.total_bytes for counter in second.progress.counters] == [counted]


def test_a_query_is_not_purged_while_others_need_its_tasks() -> None:
    ended = replace(query(FIRST, state=QueryState.CANCELLED), ended_at=START)
    now, retention = START + timedelta(days=2), EndedRetention(timedelta(days=1), 0)
    assert purgeable([ended], now=now, retention=retention) == (FIRST,)
    assert purgeable([ended], now=now, retention=retention, needed={FIRST}) == ()


def test_settings_are_checked_by_name_and_value() -> None:
    assert checked_setting("SHARING", "Sana") == ("sharing", "sana")
    assert with_settings(Settings(), {"sharing": "strict"}) == Settings(Sharing.STRICT)
    assert with_settings(Settings(Sharing.SANA), {"sharing_start": "next-window"}).sharing is Sharing.SANA
    assert [row[1] for row in setting_rows(Settings()).rows] == [
        *("net", "history", "off", "auto", "1", "off", "off", "30 seconds"),
        *("lease-aware", "64", "0.5", "time"),
    ]
    assert with_settings(Settings(), {"combine": "on"}).combine
    assert with_settings(Settings(), {"merge_parallelism": "4"}).merge_parallelism == 4
    assert checked_setting("Split_Size", " 016.5") == ("split_size", "16.5")
    chosen = {"batch_scheduler": "random", "split_size": "16.5", "locality_min": "1"}
    assert with_settings(Settings(), chosen).batch == BatchOptions(Policy.RANDOM, 16_500_000, 1.0)
    refused = (
        ("share", "sana", "sharing"),
        ("sharing", "some", "max-share"),
        ("combine", "true", "on, off"),
        ("adaptation", "true", "off, advise, on"),
        ("allow_degrade", "always", "off, sample, late"),
        ("degrade_after", "5 seconds", "at least 10 seconds"),
        ("degrade_after", "a while", "an interval such as '1 minute'"),
        ("combine_tree", "eu", "ways such as 'eu-west > eu-central'"),
        ("combine_tree", "eu > us > eu", "auto, off"),
        ("merge_parallelism", "0", "from 1 to 64"),
        ("merge_parallelism", "two", "from 1 to 64"),
        ("batch_scheduler", "fifo", "first-come"),
        ("split_size", "0", "more than 0"),
        ("split_size", "nan", "MB"),
        ("locality_min", "50", "a share from 0 to 1"),
    )
    for name, value, hint in refused:
        with pytest.raises(InvalidRequestError) as caught:
            checked_setting(name, value)
        assert hint in caught.value.hint


def test_only_sources_that_nobody_else_reads_may_leave_rows_out() -> None:
    assert degrades(Settings()) is None
    for sharing in ("net", "no-share"):
        settings = with_settings(Settings(), {"allow_degrade": "late", "degrade_after": "1 minute", "sharing": sharing})
        assert degrades(settings) == Degrading(Degrade.LATE, timedelta(minutes=1))
    with pytest.raises(InvalidRequestError, match="sharing = sana: other queries would miss rows") as caught:
        degrades(with_settings(Settings(), {"allow_degrade": "sample", "sharing": "sana"}))
    assert caught.value.hint == "SET sharing = 'no-share' or 'net'"


def test_a_tree_of_combining_sites() -> None:
    """Sites' names are kept as they are written."""
    name, text = checked_setting("COMBINE_TREE", " EU-west > eu >us ")
    assert (name, text) == ("combine_tree", "EU-west > eu, eu > us")
    settings = with_settings(Settings(combine=True), {name: text})
    assert settings.combine_tree == Tree({"EU-west": "eu", "eu": "us"})
    assert combines(settings)
    assert checked_setting("combine_tree", "AUTO")[1] == "auto"
    assert with_settings(settings, {name: "auto"}).combine_tree is None
    assert with_settings(settings, {name: "off"}).combine_tree == Tree()
    with pytest.raises(InvalidRequestError, match=r"combine_tree = .* does not go together with combine = off"):
        combines(Settings(combine_tree=settings.combine_tree))
    assert not combines(Settings(combine_tree=Tree()))


def test_sites_do_not_combine_what_may_begin_in_the_middle() -> None:
    assert combines(Settings(combine=True))
    assert not combines(Settings(start=Start.NEXT_WINDOW))
    with pytest.raises(InvalidRequestError, match=r"combine = on .* sharing_start = next-window"):
        combines(Settings(combine=True, start=Start.NEXT_WINDOW))
