from __future__ import annotations

from datetime import UTC, datetime, timedelta

from planner.values.stages import StageKind
from site_agent.agent.streams import pushed_streams
from site_agent.engine import Field
from site_agent.ingest import PushedStream
from site_agent.tasks.spec import Assignment, RelationSpec, TaskSpec

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = (Field("v", "BIGINT"),)
OPTIONS = {"connector": "push"}


def stream(name: str = "Orders", created_at: datetime = CREATED) -> RelationSpec:
    return RelationSpec(name, COLUMNS, "ts", timedelta(0), OPTIONS, created_at)


def task(task_id: str, relation: RelationSpec, kind: StageKind = StageKind.SOURCE) -> TaskSpec:
    return TaskSpec(task_id, "q", "s1", kind, "", timedelta(0), relation)


def test_readers_are_the_source_tasks_of_a_stream() -> None:
    tasks = (
        task("q1.s1.us", stream()),
        task("q2.s1.us", stream("ORDERS")),
        task("q3.s1.us", stream("other")),
        task("q4.s1.us", stream(created_at=CREATED + timedelta(seconds=1))),
        task("q.t1.us", stream(), StageKind.TABLE),
    )
    (found,) = pushed_streams(Assignment("c", 1, tasks, streams=(stream(),)))
    assert found == PushedStream("Orders", COLUMNS, OPTIONS, CREATED)
    assert found.readers == ("q1.s1.us", "q2.s1.us")
