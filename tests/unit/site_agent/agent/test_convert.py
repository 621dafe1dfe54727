from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from contract.figures import TaskFigures, figures_of, values_of
from contract.handover import HandoverReport, handover_from_proto
from contract.splits import split_to_proto
from contract.tasks import TaskState
from planner.values.pairs import PairSide
from planner.values.splits import FilePart
from planner.values.stages import StageKind
from selat.v1 import common_pb2, site_pb2
from site_agent.agent.convert import assignment_from_proto, status_to_proto
from site_agent.connectors.sources import Split
from site_agent.engine import Field, PythonFunction
from site_agent.tasks.progress import OperatorStatus, TaskStatus
from site_agent.tasks.spec import (
    Assignment,
    HandOver,
    InputSpec,
    PairSpec,
    RelationSpec,
    ResultSpec,
    SeedSpec,
    SessionSpec,
    TakeOver,
    TaskSpec,
    ViewSpec,
    WindowSpec,
)

RELATION = common_pb2.Relation(
    name="clicks",
    kind=common_pb2.RELATION_KIND_STREAM,
    columns=[common_pb2.Column(name="ts", type="TIMESTAMP")],
    event_time="ts",
    watermark_delay_us=5_000_000,
    bindings=[common_pb2.Binding(site="us", options={"connector": "files"})],
    created_at_us=1_000_000,
)
INPUT = site_pb2.ChannelInput(
    channel="q.t1.us", site="us", view="t1", columns=[common_pb2.Column(name="a", type="INT")]
)
FUNCTION = common_pb2.Function(
    name="Cell",
    parameters=[common_pb2.Column(name="x", type="INT")],
    returns="STRING",
    entry="cell",
    file="geo.py",
    source="def cell(x): ...",
    vectorised=True,
    digest="0123456789abcdef",
)
PARTIALS = WindowSpec("w", 10, 10, (ViewSpec("input", "C"),))


def test_an_assignment_comes_over_whole() -> None:
    message = site_pb2.Assignment(
        cluster_id="c",
        version=7,
        tasks=[
            site_pb2.TaskSpec(
                task_id="q.s1.us",
                query_id="q",
                stage_id="s1",
                kind=site_pb2.STAGE_KIND_SOURCE,
                sql="SELECT 1",
                relation=RELATION,
                read_columns=["ts"],
                inputs=[INPUT],
                consumers=["eu"],
                epoch_interval_ms=250,
                functions=[FUNCTION],
            ),
            site_pb2.TaskSpec(
                task_id="q.m1.eu",
                kind=site_pb2.STAGE_KIND_MERGE,
                merge=site_pb2.MergeSpec(window_column="w", window_us=10, combine_sql="C"),
            ),
        ],
        results=[site_pb2.ResultSpec(query_id="q", inputs=[INPUT])],
        site_addresses={"us": "h:1"},
    )
    created = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    clicks = RelationSpec(
        "clicks", (Field("ts", "TIMESTAMP"),), "ts", timedelta(seconds=5), {"connector": "files"}, created
    )
    columns = (Field("x", "INT"),)
    cell = PythonFunction("Cell", "cell__0123456789ab", columns, "STRING", "cell", "geo.py", "def cell(x): ...", True)
    source = InputSpec("q.t1.us", "us", "t1", (Field("a", "INT"),))

    assert assignment_from_proto(message) == Assignment(
        "c",
        7,
        (
            TaskSpec(
                "q.s1.us",
                "q",
                "s1",
                StageKind.SOURCE,
                "SELECT 1",
                timedelta(milliseconds=250),
                clicks,
                ("ts",),
                (source,),
                consumers=("eu",),
                functions=(cell,),
            ),
            TaskSpec("q.m1.eu", "", "", StageKind.MERGE, "", timedelta(seconds=1), window=PARTIALS),
        ),
        (ResultSpec("q", (source,)),),
        {"us": "h:1"},
    )


@pytest.mark.parametrize(("said", "slide_us"), [(0, 10), (5, 5)])
def test_windows_follow_one_another_unless_said_otherwise(said: int, slide_us: int) -> None:
    merge = site_pb2.MergeSpec(window_column="w", window_us=10, combine_sql="C", slide_us=said)
    task = site_pb2.TaskSpec(task_id="q.m1.eu", kind=site_pb2.STAGE_KIND_MERGE, merge=merge)
    (spec,) = assignment_from_proto(site_pb2.Assignment(tasks=[task])).tasks

    assert spec.window == WindowSpec("w", 10, slide_us, (ViewSpec("input", "C"),))


def test_a_merge_may_have_several_views() -> None:
    views = [site_pb2.MergeView(view="input", combine_sql="C", required=True), site_pb2.MergeView(view="t1")]
    merge = site_pb2.MergeSpec(window_column="w", window_us=10, views=views)
    task = site_pb2.TaskSpec(task_id="q.m1.eu", kind=site_pb2.STAGE_KIND_MERGE, merge=merge)
    (spec,) = assignment_from_proto(site_pb2.Assignment(tasks=[task])).tasks

    assert spec.window == WindowSpec("w", 10, 10, (ViewSpec("input", "C"), ViewSpec("t1", "", required=False)))


def test_a_merge_of_sessions_is_told_of_their_columns() -> None:
    sessions = site_pb2.Sessions(start_column="s", end_column="e", keys=["k", "l"])
    merge = site_pb2.MergeSpec(window_us=10, combine_sql="C", sessions=sessions)
    task = site_pb2.TaskSpec(task_id="q.m1.eu", kind=site_pb2.STAGE_KIND_MERGE, merge=merge)
    (spec,) = assignment_from_proto(site_pb2.Assignment(tasks=[task])).tasks

    views = (ViewSpec("input", "C"),)
    assert spec.window == WindowSpec("s", 10, 10, views, sessions=SessionSpec("e", ("k", "l")))


@pytest.mark.parametrize("upper_us", [None, 0, 7])
def test_a_merge_of_pairs_is_told_of_their_bounds_and_how_far_rows_are_behind(upper_us: int | None) -> None:
    first = site_pb2.PairSide(view="input", keys=["k"], unmatched=True)
    second = site_pb2.PairSide(view="t1", keys=["l"], once=True)
    pairs = site_pb2.Pairs(column="w", first=first, second=second, lower_us=-5, upper_us=upper_us, until_column="u")
    merge = site_pb2.MergeSpec(window_us=10, combine_sql="C", pairs=pairs)
    behind = site_pb2.ChannelInput(channel="q.m1.us", behind_us=3)
    task = site_pb2.TaskSpec(task_id="q.m2.eu", kind=site_pb2.STAGE_KIND_MERGE, merge=merge, inputs=[behind])
    (spec,) = assignment_from_proto(site_pb2.Assignment(tasks=[task])).tasks

    sides = (PairSide("input", ("k",), unmatched=True), PairSide("t1", ("l",), once=True))
    expected = PairSpec(*sides, lower_us=-5, upper_us=upper_us, until="u", emits_pairs=False)
    assert spec.window == WindowSpec("w", 10, 10, (ViewSpec("input", "C"),), pairs=expected)
    assert spec.inputs[0].behind_us == 3


@pytest.mark.parametrize("split", [None, Split(), Split((FilePart("/a", 3, 4), FilePart("/b", 0, 9)), 13)])
def test_a_split_comes_over_whole(split: Split | None) -> None:
    task = site_pb2.TaskSpec(kind=site_pb2.STAGE_KIND_TABLE, split=None if split is None else split_to_proto(split))
    (spec,) = assignment_from_proto(site_pb2.Assignment(tasks=[task])).tasks
    assert spec.split == split


def test_an_input_of_a_reduction_may_have_no_site_yet() -> None:
    task = site_pb2.TaskSpec(kind=site_pb2.STAGE_KIND_REDUCE, inputs=[site_pb2.ChannelInput(channel="a", view="input")])
    (spec,) = assignment_from_proto(site_pb2.Assignment(tasks=[task])).tasks
    assert (spec.kind, spec.inputs) == (StageKind.REDUCE, (InputSpec("a", "", "input"),))


@pytest.mark.parametrize("state", list(TaskState))
def test_a_status_goes_over_whole(state: TaskState) -> None:
    counts = {name: 1 + number for number, name in enumerate(values_of(TaskFigures()))}
    status = TaskStatus(
        "q.s1.us",
        "q",
        "s1",
        state,
        "why",
        next_epoch=8,
        watermark_us=14,
        operators=(OperatorStatus("Filter", 16, 17.0),),
        **counts,  # type: ignore[arg-type]
    )
    message = status_to_proto(status, "us")

    assert site_pb2.TaskState.Name(message.state) == f"TASK_STATE_{state.name}"
    assert (message.task_id, message.query_id, message.stage_id, message.site) == ("q.s1.us", "q", "s1", "us")
    assert figures_of(message) == counts
    assert (message.reason, message.next_epoch, message.watermark_us) == ("why", 8, 14)
    assert [(o.name, o.rows_out, o.rows_out_per_s) for o in message.operators] == [("Filter", 16, 17.0)]


def test_a_handover_comes_over_whole_and_its_report_goes_over() -> None:
    hand_over = site_pb2.HandOver(successor_channel="q.m1.g1", successor_site="us", cut=True)
    hand_over.seed.channel = "q.m1.g1.seed"
    hand_over.seed.first_epochs.update({"b": 2, "a": 0})
    take_over = site_pb2.TakeOver(
        kind=site_pb2.STAGE_KIND_FINAL, predecessor_channel="q.m1", predecessor_site="eu", seed_channel="q.m1.g1.seed"
    )
    merge = site_pb2.MergeSpec(window_column="w", window_us=10)
    reader = site_pb2.ChannelInput(channel="q.m1.g1", site="us", view="input", from_epoch=7)
    tasks = [
        site_pb2.TaskSpec(task_id="q.m1", kind=site_pb2.STAGE_KIND_FINAL, merge=merge, hand_over=hand_over),
        site_pb2.TaskSpec(task_id="q.m1.g1", kind=site_pb2.STAGE_KIND_SUCCESSOR, merge=merge, take_over=take_over),
        site_pb2.TaskSpec(task_id="q.s", kind=site_pb2.STAGE_KIND_SINK, inputs=[reader]),
    ]
    old, new, sink = assignment_from_proto(site_pb2.Assignment(tasks=tasks)).tasks

    assert old.hand_over == HandOver("q.m1.g1", "us", SeedSpec("q.m1.g1.seed", {"a": 0, "b": 2}), cut=True)
    assert (new.kind, new.take_over) == (StageKind.FINAL, TakeOver("q.m1", "eu", "q.m1.g1.seed"))
    assert (old.take_over, new.hand_over, sink.inputs[0].from_epoch) == (None, None, 7)
    report = HandoverReport(seeded=True, cut=True, last_epoch=0, first_epochs={"a": 3}, taken_over=True)
    status = TaskStatus("q.m1", "q", "m1", TaskState.ENDED, "", handover=report)
    assert handover_from_proto(status_to_proto(status, "eu").handover) == report
    assert not status_to_proto(replace(status, handover=None), "eu").HasField("handover")
