"""The SQLite store: the contract in memory and in a file, and what only a file can do."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from master.base.errors import StoreError, StoreFullError
from master.records.model import BatchState, BatchTask, StreamQuery
from master.store import codec
from master.store.database import STATE_FILE
from master.store.migrations import MIGRATIONS, PLACEMENT, TASK_IDS
from master.store.sqlite import SqliteStore
from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import BatchPlan, Destination, PhysicalPlan, Split, Stage, StageInput
from planner.sharing.vertices import RESULTS
from planner.values.stages import StageKind
from tests.unit.master.build import CLICKS, CLICKS_EU, CLICKS_US, MERGE_EU, PAGES_US, PLAN, QUERY_ID, query
from tests.unit.master.store.contract import ACCEPTED, StoreContract


class TestInMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[SqliteStore]:
        store = SqliteStore.in_memory()
        yield store
        store.close()


class TestInAFile(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore.open(tmp_path / "data")
        yield store
        store.close()


def test_state_is_there_after_reopening(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    assert store.cluster("c-one").id == "c-one"
    assert store.next_query_number() == 1
    store.put_relation(CLICKS)
    store.close()

    store = SqliteStore.open(tmp_path)
    assert store.cluster("c-two").id == "c-one"
    assert store.next_query_number() == 2
    assert store.relations() == (CLICKS,)
    store.close()


def test_a_second_master_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    with pytest.raises(StoreError, match="another master uses"):
        SqliteStore.open(tmp_path)
    store.close()
    SqliteStore.open(tmp_path).close()


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    connection = sqlite3.connect(tmp_path / STATE_FILE)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StoreError, match="is of version"):
        SqliteStore.open(tmp_path)


def of_version(directory: Path, version: int, **columns: str) -> sqlite3.Connection:
    """State of an earlier version with one query, which merges at eu what sources at us and eu give."""
    connection = sqlite3.connect(directory / STATE_FILE, isolation_level=None)
    for number, step in enumerate(MIGRATIONS[:version], start=1):
        if number != TASK_IDS:
            connection.executescript(step)
    connection.execute(f"PRAGMA user_version = {version}")
    stored = {"name": "", "sql": "", "plan": plan_with_sites(PLAN), "state": "running", "reason": "", "progress": "{}"}
    values = {"id": QUERY_ID, "submitted_at_us": 0} | stored | columns
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO queries ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))
    return connection


def plan_with_sites(plan: PhysicalPlan) -> str:
    """As plans were stored when they had the sites of their tasks."""
    stored = json.loads(codec.dumps(plan))
    stored |= {"gateway": stored.pop("destination")["site"]}
    for stage, known in zip(stored["stages"], plan.stages, strict=True):
        stage["sites"] = list(plan.sites_of(known))
        del stage["pinned"]
    expected, stored["batch"] = stored.pop("sites"), None
    if isinstance(plan, BatchPlan):
        stored["batch"] = {name: stored.pop(name) for name in ("splits", "options", "read_columns")}
        (stored["batch"]["reduce_site"],) = expected.values()
    return json.dumps(stored)


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """State of the version before ids of tasks had no site, with one query."""
    task = {"task_id": "q-1.s1.us", "query_id": "q-1", "stage_id": "s1", "site": "us", "rows_in": 7}
    others = {"q-1.s1.eu": task | {"task_id": "q-1.s1.eu", "site": "eu"}, "q-1.m1.eu": task | {"task_id": "q-1.m1.eu"}}
    counter = {"channel": "q-1.s1.us", "from_site": "us", "to_site": "eu", "incarnation": "a", "current_bytes": 9}
    progress = json.dumps({"tasks": {"q-1.s1.us": task} | others, "counters": [counter]})
    connection = of_version(tmp_path, TASK_IDS - 1, progress=progress, deployment="x")
    yield connection
    connection.close()


def test_queries_that_ended_before_ids_had_no_site_are_read(earlier: sqlite3.Connection, tmp_path: Path) -> None:
    earlier.execute("UPDATE queries SET state = 'finished'")
    (read,) = SqliteStore.open(tmp_path).queries()
    assert {str(task): status.site for task, status in read.progress.tasks.items()} == {
        "q-1.s1.p0": "us",
        "q-1.s1.p1": "eu",
        "q-1.m1.p0": "us",
    }
    assert [(str(c.channel), c.total_bytes) for c in read.progress.counters] == [("q-1.s1.p0", 9)]


def test_queries_that_run_under_other_ids_are_refused_in_one_line(earlier: sqlite3.Connection, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"begun by an earlier version, which this one cannot take over: {query().id}"):
        SqliteStore.open(tmp_path)
    assert earlier.execute("PRAGMA user_version").fetchone() == (TASK_IDS - 1,)


def test_where_tasks_are_is_taken_out_of_the_plans_of_an_earlier_version(tmp_path: Path) -> None:
    of_version(tmp_path, PLACEMENT - 1).close()
    store = SqliteStore.open(tmp_path)
    assert store.placement() == {
        PAGES_US: "us",
        CLICKS_US: "us",
        CLICKS_EU: "eu",
        MERGE_EU: "eu",
        TaskId(QUERY_ID, RESULTS): "hub",
    }
    assert store.queries()[0].plan == replace(PLAN, sites={})


def test_what_was_shared_under_an_earlier_version_is_shared_on(tmp_path: Path) -> None:
    vertex = {"id": "merge.p0", "kind": "merge", "fingerprint": "f", "inputs": ["clicks.p0"], "site": None}
    results = {"id": "results.p0", "kind": "results", "fingerprint": "g", "inputs": ["merge.p0"], "site": "hub"}
    source = {"id": "clicks.p0", "kind": "source", "fingerprint": "h", "site": "us"}
    operators = [
        {"id": f"{QUERY_ID}.merge.p0", "vertex": vertex, "site": "eu", "inputs": ["q-0001-b.s1.p0"]},
        {"id": f"{QUERY_ID}.results.p0", "vertex": results, "site": "hub", "inputs": [f"{QUERY_ID}.merge.p0"]},
    ]
    deployment = {
        "sharing": "sana",
        "vertices": [source, vertex, results],
        "operators": operators,
        "stands": {"clicks.p0": "q-0001-b.s1.p0"},
        "sites": {"clicks.p0": "us", "merge.p0": "eu", "results.p0": "hub"},
        "foreign": {"q-0001-b.s1.p0": "us"},
    }
    of_version(tmp_path, PLACEMENT - 1, deployment=json.dumps(deployment)).close()
    store = SqliteStore.open(tmp_path)
    other = TaskId("q-0001-b", "s1")
    assert store.placement() == {MERGE_EU: "eu", TaskId(QUERY_ID, RESULTS): "hub", other: "us"}
    (query,) = store.queries()
    assert isinstance(query, StreamQuery)
    read = query.deployment
    assert read is not None
    assert [(one.id, one.vertex.pinned, one.inputs) for one in read.deployed] == [
        (MERGE_EU, None, (other,)),
        (TaskId(QUERY_ID, RESULTS), "hub", (MERGE_EU,)),
    ]
    assert read.stands == {VertexId("clicks"): other}
    assert read.wanted[VertexId("merge")] == "eu"


def test_a_batch_query_of_an_earlier_version_keeps_where_its_reduce_was_expected(tmp_path: Path) -> None:
    stages = (
        Stage("map", StageKind.MAP, ("us",), relation="pages"),
        Stage("reduce", StageKind.REDUCE, (), inputs=(StageInput("map", "input"),)),
    )
    splits = (Split("us", (), 0),)
    expected, results = {VertexId("reduce"): "eu"}, Destination("hub")
    plan = BatchPlan(stages, "reduce", results, PLAN.columns, expected, splits=splits)
    tasks = codec.dumps(BatchState((BatchTask(),)))
    of_version(tmp_path, PLACEMENT - 1, plan=plan_with_sites(plan), batch=tasks).close()
    store = SqliteStore.open(tmp_path)
    assert store.placement() == {}
    assert store.queries()[0].plan == plan


def test_a_write_that_fails_halfway_leaves_nothing_behind() -> None:
    store = SqliteStore.in_memory()
    broken = replace(ACCEPTED, reason=object())  # type: ignore[arg-type]
    with pytest.raises(sqlite3.Error):
        store.put_query(query(), broken, {})
    assert store.queries() == ()
    store.put_query(query(), ACCEPTED, {})
    assert store.changes(ACCEPTED.query_id) == (ACCEPTED,)


def fill(store: SqliteStore) -> None:
    """From now on the file may not grow, as on a full disk."""
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


def free(store: SqliteStore) -> None:
    store._connection.execute("PRAGMA max_page_count = 100000")


def test_a_full_disk_refuses_and_forgets_nothing(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    store.cluster("c")
    store.put_relation(CLICKS)
    fill(store)
    large = replace(query(), sql="SELECT " + "1 + " * 50_000 + "1")

    for _ in range(2):
        with pytest.raises(StoreFullError, match="is full: nothing was accepted"):
            store.put_query(large, ACCEPTED, {})
    assert (store.queries(), store.changes(ACCEPTED.query_id)) == ((), ())
    assert store.relations() == (CLICKS,)

    free(store)
    store.put_query(large, ACCEPTED, {})
    store.close()
    assert SqliteStore.open(tmp_path).queries() == (large,)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no database at all, but long enough to be one" * 100, "cannot be used: file is not a database"),
        (b"SQLite format 3\x00" + b"\xff" * 5000, "cannot be used: "),
    ],
    ids=["garbage", "header-only"],
)
def test_a_damaged_file_is_said_and_left_alone(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / STATE_FILE).write_bytes(content)
    with pytest.raises(StoreError, match=said) as caught:
        SqliteStore.open(tmp_path)
    assert str(tmp_path / STATE_FILE) in caught.value.message
    assert "backup" in caught.value.hint
    assert (tmp_path / STATE_FILE).read_bytes() == content


def test_a_body_that_is_none_of_ours_is_said(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    store._connection.execute("INSERT INTO relations VALUES ('clicks', '{\"name\": 5')")
    with pytest.raises(StoreError, match="the list of streams and tables is damaged"):
        store.relations()


def test_a_directory_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be used: (Not a directory|File exists)"):
        SqliteStore.open(tmp_path / "file")
