"""What goes to a message and back is what it was."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.figures import FIGURES
from contract.tasks import TaskState
from contract.times import from_us
from master.base.errors import InvalidRequestError
from master.convert.assignments import assignment_to_proto
from master.convert.relations import relation_from_proto, relation_to_proto
from master.convert.reports import LARGEST_COUNT, registration_from_proto, report_from_proto
from master.records.model import (
    ChannelUse,
    DiskUse,
    LinkUse,
    MemoryUse,
    OperatorStatus,
    QueryBehind,
    ResultStatus,
    SiteRecord,
    SiteReport,
    StreamLog,
    TaskStatus,
)
from master.records.specs import (
    Assignment,
    ChannelInput,
    ChannelReader,
    QueryReaders,
    ResultSpec,
    TaskSpec,
    VersionedAssignment,
)
from planner.graph.ids import TaskId
from planner.graph.plan import Merge, MergeView, Pairs
from planner.relations.catalog import ARRIVED, Binding, Column, Function, Relation, RelationKind
from planner.values.pairs import PairSide
from planner.values.stages import StageKind
from selat.v1 import common_pb2, site_pb2
from tests.fakes.assignments import assignment_from_proto
from tests.fakes.reports import report_to_proto

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMED = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
IDS = st.builds(
    TaskId,
    st.sampled_from(["q-1", "q-2"]),
    st.sampled_from(["s1", "m1"]),
    st.integers(0, 2000),
    st.booleans(),
    st.integers(0, 9),
)
COUNT = st.integers(0, LARGEST_COUNT)
RATE = st.floats(0, 1e15)
WATERMARK = st.none() | st.integers(-(2**63), 2**63 - 1)
LENGTH = st.timedeltas(timedelta(0), timedelta(days=100_000))
INSTANT = st.integers(1, 10**17).map(from_us)
OPTIONS = st.dictionaries(TEXT, TEXT, max_size=3)


def tuples(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, max_size=3).map(tuple)


RELATIONS = st.builds(
    Relation,
    name=NAMED,
    kind=st.sampled_from(RelationKind),
    columns=tuples(st.builds(Column, NAMED, NAMED)),
    bindings=tuples(st.builds(Binding, NAMED, OPTIONS)),
    event_time=st.none() | NAMED,
    watermark_delay=LENGTH,
    comment=TEXT,
    created_at=st.none() | INSTANT,
)
STATUSES = st.builds(
    TaskStatus,
    task_id=IDS,
    **dict.fromkeys(("query_id", "stage_id", "site", "reason"), TEXT),
    next_epoch=COUNT,
    **{figure.name: COUNT if figure.traits.unit.whole else RATE for figure in FIGURES},
    state=st.sampled_from(TaskState),
    operators=tuples(st.builds(OperatorStatus, TEXT, COUNT, RATE)),
    behind=tuples(st.builds(QueryBehind, TEXT, COUNT, tuples(TEXT), st.booleans())),
    watermark_us=WATERMARK,
)
REPORTS = st.builds(
    SiteReport,
    site=TEXT,
    incarnation=TEXT,
    assignment_version=COUNT,
    tasks=tuples(STATUSES),
    channels=tuples(st.builds(ChannelUse, IDS, TEXT, TEXT, COUNT, COUNT, st.integers(0, 2**31))),
    results=tuples(st.builds(ResultStatus, TEXT, COUNT, COUNT, st.booleans(), WATERMARK, WATERMARK)),
    links=tuples(st.builds(LinkUse, TEXT, TEXT, COUNT, COUNT, RATE)),
    memory_bytes=COUNT,
    memory=st.builds(MemoryUse, *[COUNT] * 5, st.integers(0, 2**31)),
    disk=st.builds(DiskUse, st.dictionaries(TEXT, COUNT), *[COUNT] * 4),
    stream_logs=tuples(st.builds(StreamLog, TEXT, *[COUNT] * 5, st.booleans(), TEXT)),
)
INPUTS = tuples(st.builds(ChannelInput, IDS, TEXT, TEXT, behind=LENGTH))
VIEWS = tuples(st.builds(MergeView, TEXT, TEXT, st.booleans()))
SIDES = st.builds(PairSide, TEXT, tuples(TEXT), st.booleans(), st.booleans())
FLAGS = {name: st.booleans() for name in ("emits_pairs", "newest", "strict")}
PAIRS = st.builds(Pairs, SIDES, SIDES, LENGTH, st.none() | LENGTH, TEXT, **FLAGS)
MERGES = st.builds(Merge, TEXT, LENGTH, TEXT, st.none() | LENGTH.filter(bool), VIEWS) | st.builds(
    Merge, NAMED, LENGTH, TEXT, pairs=PAIRS
)
TASKS = st.builds(
    TaskSpec,
    task_id=IDS,
    query_id=TEXT,
    stage_id=TEXT,
    kind=st.sampled_from([kind for kind in StageKind if kind is not StageKind.MAP]),
    sql=TEXT,
    relation=st.none() | RELATIONS,
    read_columns=tuples(TEXT),
    inputs=INPUTS,
    merge=st.none() | MERGES,
    consumers=tuples(TEXT),
    functions=tuples(
        st.builds(
            Function, NAMED, tuples(st.builds(Column, NAMED, NAMED)), TEXT, NAMED, NAMED, TEXT, st.booleans(), TEXT
        )
    ),
    epoch_interval=st.integers(0, 2**31).map(lambda ms: timedelta(milliseconds=ms)),
    paused=st.booleans(),
    readers=tuples(st.builds(QueryReaders, TEXT, tuples(st.builds(ChannelReader, TEXT, TEXT)))),
)
ASSIGNMENTS = st.builds(
    VersionedAssignment,
    COUNT,
    st.builds(Assignment, tuples(TASKS), tuples(st.builds(ResultSpec, TEXT, INPUTS)), OPTIONS, tuples(RELATIONS)),
)


@given(RELATIONS)
def test_relations(relation: Relation) -> None:
    wire = relation_to_proto(relation).SerializeToString()
    assert relation_from_proto(common_pb2.Relation.FromString(wire)) == relation


def test_the_time_of_arrival_is_told_by_its_absence_from_the_columns() -> None:
    columns = (Column("v", "INT"), ARRIVED)
    relation = Relation("s", RelationKind.STREAM, columns, (), event_time="arrived", by_arrival=True)
    message = relation_to_proto(relation)
    assert [column.name for column in message.columns] == ["v"]
    assert relation_from_proto(message) == relation
    declared = Relation("s", RelationKind.STREAM, columns, (), event_time="arrived")
    assert relation_from_proto(relation_to_proto(declared)) == declared


@given(REPORTS)
def test_reports(report: SiteReport) -> None:
    wire = report_to_proto(report).SerializeToString()
    assert report_from_proto(site_pb2.ReportRequest.FromString(wire)) == report


@given(ASSIGNMENTS)
def test_assignments(current: VersionedAssignment) -> None:
    message = site_pb2.Assignment.FromString(assignment_to_proto(current, cluster_id="c").SerializeToString())
    assert message.cluster_id == "c"
    assert assignment_from_proto(message) == current


def test_a_relation_without_kind_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="neither stream, table, view nor sink"):
        relation_from_proto(common_pb2.Relation(name="x"))


def test_a_registration_needs_site_address_and_incarnation() -> None:
    message = site_pb2.RegisterRequest(site="us", address="a:1", incarnation="i", slots=2, version="0.1.0")
    assert registration_from_proto(message) == SiteRecord("us", "a:1", "i", 2, "0.1.0")
    message.ClearField("address")
    with pytest.raises(InvalidRequestError, match="needs address"):
        registration_from_proto(message)


def test_an_unknown_task_state_counts_as_starting() -> None:
    message = site_pb2.ReportRequest(site="us", tasks=[site_pb2.TaskStatus(task_id="q-1.s1.p0")])
    assert report_from_proto(message).tasks[0].state is TaskState.STARTING


def test_tasks_of_an_earlier_version_are_passed_over() -> None:
    tasks = [site_pb2.TaskStatus(task_id=task) for task in ("q-1.s1.us", "q-2.s1.p1")]
    uses = [site_pb2.ChannelUse(channel=channel) for channel in ("q-2.s1.p1", "q-1.s1.us")]
    report = report_from_proto(site_pb2.ReportRequest(site="us", tasks=tasks, channels=uses))
    assert (
        [task.task_id for task in report.tasks] == [TaskId("q-2", "s1", 1)] == [use.channel for use in report.channels]
    )
